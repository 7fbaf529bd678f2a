import './directories.js'

/**
 * `spawn(...bare(program, words), options)` starts a program as users do. tap adds its hooks to every child
 * process through NODE_OPTIONS. They are not needed here, and a start of Node takes three times as long with them.
 */
export function bare(program: string, words: readonly string[]): [command: string, words: string[]] {
  return ['/usr/bin/env', ['-u', 'NODE_OPTIONS', program, ...words]]
}
