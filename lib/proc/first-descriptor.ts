/** The number of the first of `descriptors` in a helper process; Node's channel is 3. */
export const firstDescriptor = 4
