/** Sentences of lib/api that tests of other rooms assert. */
export const apiSays = {
  commitInvalid: '"commit" is invalid: expected at least 4 hexadecimal digits of a commit id'
}
