
k
xPlaceholder",/job:localhost/replica:0/task:0/device:CPU:0*
shapeNone*
output:0float32 None
U
yLogx",/job:localhost/replica:0/task:0/device:CPU:0*
output:0float32 None"