
]
gradients/sum_grad/SumBackward0SumBackward0*
_phase
backward*
_forward_nodesum
K
gradients/AddmmBackward0AddmmBackward0gradients/sum_grad/SumBackward0
>
gradients/TBackward0
TBackward0gradients/AddmmBackward0:2"