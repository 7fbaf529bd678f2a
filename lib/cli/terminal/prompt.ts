import { createInterface } from 'node:readline'
import { readAtMost } from '../../base/async.js'
import { Refusal } from '../../base/errors.js'
import { decodeText, tokenOf } from '../../base/text.js'
import type { Context } from '../command.js'
import { type Host, isCi } from './output.js'
import { plainText } from './terminal-text.js'

const maxSecretBytes = 64 * 1024
const ctrlC = '\x03'
const ctrlD = '\x04'
const endOfAnswer = /[\r\n\x03\x04]/
const backspaces = ['\x7f', '\b']

/** Thrown if the user answers a question with Ctrl-C or Ctrl-D, or interrupts the command. */
export class Interrupted extends Error {
  override name = 'Interrupted'
}

/**
 * Returns whether the user can answer questions: both stderr (questions) and stdin (answers) must be a terminal, and
 * not that of a CI job, where nobody is.
 */
export function canAsk(host: Host): boolean {
  return host.stdin.isTTY === true && host.stderr.isTTY === true && !isCi(host.env)
}

/** Refuses (`invalid`) needs_terminal if the user cannot answer. `instead` names the option to use. */
export function mustAsk(host: Host, what: string, instead: string): void {
  if (!canAsk(host))
    throw new Refusal('invalid', 'needs_terminal', `${what}, but there is no terminal to ask on: ${instead}`)
}

/** Asks for one line. An empty answer means `fallback`. */
export async function ask(host: Host, question: string, fallback = ''): Promise<string> {
  const lines = createInterface({ input: host.stdin, output: host.stderr, terminal: true })
  try {
    const shown = plainText(fallback === '' ? `${question}: ` : `${question} [${fallback}]: `)
    const answer = await new Promise<string>((resolve, reject) => {
      lines.once('close', () => reject(new Interrupted()))
      lines.question(shown, resolve)
    })
    return answer.trim() || fallback
  } finally {
    lines.close()
  }
}

/** Asks until the answer is yes or no. */
export async function confirm(host: Host, question: string): Promise<boolean> {
  for (;;) {
    const answer = (await ask(host, `${question} [y/N]`)).toLowerCase()
    if (answer === 'y' || answer === 'yes') return true
    if (answer === '' || answer === 'n' || answer === 'no') return false
  }
}

/** What a user must confirm. */
interface Confirmation {
  /** Whether `--yes` was given. */
  yes: boolean
  /** What needs the confirmation: "Revoking a token". */
  what: string
  /** What was not done after a no; default: "changed". */
  done?: string
}

/**
 * Refuses at once if the user has to confirm something and cannot be asked. Returns the function that asks, which says
 * after a no that nothing was done.
 */
export function confirmation(
  { host, output }: Pick<Context, 'host' | 'output'>,
  { yes, what, done = 'changed' }: Confirmation
): (question: string) => Promise<boolean> {
  if (!yes) mustAsk(host, `${what} needs a confirmation`, 'use --yes')
  return async question => {
    if (yes || (await confirm(host, question))) return true
    output.note(`Nothing was ${done}.`)
    return false
  }
}

/** Asks for one of `choices`, by number or name. */
export async function choose(host: Host, question: string, choices: readonly string[]): Promise<string> {
  choices.forEach((choice, at) => host.stderr.write(`  ${at + 1}) ${plainText(choice)}\n`))
  for (;;) {
    const answer = await ask(host, question)
    const chosen = choices.find(choice => choice === answer) ?? choices[Number(answer) - 1]
    if (chosen !== undefined) return chosen
    host.stderr.write(`Enter a number from 1 to ${choices.length}, or a name.\n`)
  }
}

/** Asks for one line without showing it. */
export async function askSecret(host: Host, question: string): Promise<string> {
  const { stdin, stderr } = host
  // Before the question, so that an answer typed early is not shown either.
  stdin.setRawMode(true)
  stderr.write(plainText(`${question}: `))
  stdin.setEncoding('utf8')
  let typed = ''
  try {
    return await new Promise<string>((resolve, reject) => {
      stdin.on('data', function read(chunk: string) {
        const end = chunk.search(endOfAnswer)
        for (const character of end === -1 ? chunk : chunk.slice(0, end)) {
          if (backspaces.includes(character)) typed = Array.from(typed).slice(0, -1).join('')
          else if (character >= ' ') typed += character
        }
        if (end === -1) return
        stdin.off('data', read)
        stdin.pause()
        // Text pasted after the line answers the next question.
        if (end + 1 < chunk.length) stdin.unshift(chunk.slice(end + 1))
        if (chunk[end] === ctrlC || chunk[end] === ctrlD) reject(new Interrupted())
        else resolve(typed)
      })
      stdin.resume()
    })
  } finally {
    stdin.setRawMode(false)
    stderr.write('\n')
  }
}

/**
 * Returns the value of an option that contains a secret. `-` reads it from standard input, without a final newline, or
 * asks for it without echo if that is a terminal. This keeps the secret out of the list of processes.
 */
export async function readSecret(host: Host, flag: string, value: string): Promise<string> {
  if (value !== '-') return value
  if (host.stdin.isTTY) mustAsk(host, `${flag} - reads standard input`, 'write the secret to it')
  const secret = host.stdin.isTTY ? await askSecret(host, flag.replace(/^--/, '')) : await readAll(host.stdin)
  if (secret === '')
    throw new Refusal('usage', 'usage', `${flag} - reads standard input, but it was empty`, { field: flag })
  return secret
}

async function readAll(stream: NodeJS.ReadStream): Promise<string> {
  const text = await readInput(stream, { maxBytes: maxSecretBytes, what: 'a secret' })
  return text.replace(/\r?\n$/, '')
}

/** Reads standard input to its end. Refuses (`too_large`) more than `maxBytes`, the maximum for `what`. */
export async function readInput(
  stream: NodeJS.ReadStream,
  { maxBytes, what }: { maxBytes: number; what: string }
): Promise<string> {
  const sentence = `Standard input is larger than ${maxBytes} bytes, the maximum for ${what}`
  const tooLong = () => new Refusal('too_large', 'too_large', sentence)
  return decodeText(await readAtMost(stream, { maxBytes, tooLong }), 'standard input')
}

/** Returns the token of an option (`readSecret`), without the white space around it. Refuses what `tokenOf` refuses. */
export async function readTokenOption(host: Host, flag: string, value: string): Promise<string> {
  return tokenOf(await readSecret(host, flag, value), flag)
}

const always: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']

/**
 * Runs `use` with a signal that Ctrl-C or a kill aborts; its reason is an Interrupted. The process does not die by the
 * signal: it exits by itself after `use` has cleaned up.
 */
export async function withInterrupts<T>(host: Host, use: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  // Without a terminal the command may run under `nohup`, which wants hang-ups ignored.
  const signals = host.stderr.isTTY ? [...always, 'SIGHUP' as const] : always
  const abort = () => controller.abort(new Interrupted())
  for (const signal of signals) host.on(signal, abort)
  try {
    return await use(controller.signal)
  } finally {
    for (const signal of signals) host.off(signal, abort)
  }
}
