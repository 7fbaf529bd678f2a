/**
 * `spawn(...bare(program, words), options)` starts a program as users do. tap gives every child of a test its hooks by
 * NODE_OPTIONS, from which nothing is wanted here, and which make a start of Node take three times as long.
 */
export function bare(program: string, words: readonly string[]): [command: string, words: string[]] {
  return ['/usr/bin/env', ['-u', 'NODE_OPTIONS', program, ...words]]
}
