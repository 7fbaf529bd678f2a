/*
 * A user's script, as its interpreter gets it. Editors on Windows write CRLF and a byte order mark: `cd app\r` would
 * fail with a message that hides the CR, and the script would go on in the wrong directory. A first line like
 * `#!/bin/bash` names the interpreter, as it does for a file.
 */
import { basename } from 'node:path'
import { withoutMark } from '../base/text.js'

/** Returns a script without a byte order mark, and with LF at the end of its lines. */
export function scriptTextOf(script: string): string {
  return withoutMark(script).replaceAll('\r\n', '\n').replace(/\r$/, '')
}

/** An interpreter with its arguments before the one that takes the script. */
export interface Interpreter {
  /** An absolute path, or a name that is searched in PATH. */
  program: string
  words: readonly string[]
}

/** Programs that run a text given as an argument, by the option for it. */
const textOptions: ReadonlyArray<[names: RegExp, option: string]> = [
  [/^(sh|bash|dash|ash|ksh|mksh|zsh|fish|python(\d(\.\d+)?)?)$/, '-c'],
  [/^(node|nodejs|perl|ruby)$/, '-e']
]

/** Returns the option of an interpreter that takes a script as text; null if it is unknown. */
export function textOptionOf(program: string): string | null {
  return textOptions.find(([names]) => names.test(basename(program)))?.[1] ?? null
}

/**
 * Returns the interpreter that the first line of a script names, or null without such a line. `/usr/bin/env` and its
 * option -S are resolved.
 */
export function interpreterOf(script: string): Interpreter | null {
  const line = /^#![ \t]*([^\n]*)/.exec(script)?.[1]?.trim()
  if (!line) return null
  const [program = '', ...words] = line.split(/[ \t]+/)
  if (basename(program) !== 'env') return { program, words }
  const rest = words[0] === '-S' ? words.slice(1) : words
  return rest[0] === undefined || rest[0].startsWith('-') || rest[0].includes('=')
    ? { program, words }
    : { program: rest[0], words: rest.slice(1) }
}
