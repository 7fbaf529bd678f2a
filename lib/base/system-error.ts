/*
 * What the system said, by the names of errno(3). Node knows no name for some numbers: of a used-up quota (EDQUOT) it says
 * "Unknown system error -122", and some versions "UNKNOWN: unknown error". The numbers are the system's own, so they
 * are looked up in what Node was compiled with.
 */
import { constants } from 'node:os'

type SystemError = Partial<NodeJS.ErrnoException> | null | undefined

const words: Record<string, string> = {
  EDQUOT: 'disk quota exceeded',
  ESTALE: 'stale file handle',
  EDEADLK: 'resource deadlock avoided',
  ENOLCK: 'no locks available',
  EMULTIHOP: 'multihop attempted',
  ENOLINK: 'link has been severed'
}

/** Not among Node's constants; Linux has it for a damaged file system. */
const ofLinux: Record<number, [name: string, words: string]> = {
  117: ['EUCLEAN', 'structure needs cleaning'],
  121: ['EREMOTEIO', 'remote I/O error'],
  123: ['ENOMEDIUM', 'no medium found']
}

const unnamed = /^(?:Unknown system error|UNKNOWN)/

/** The name of an error of the system (`EDQUOT`), or the error's own code; '' if there is no name. */
export function codeOf(error: unknown): string {
  const { code } = (error as SystemError) ?? {}
  if (typeof code !== 'string') return ''
  return unnamed.test(code) ? (described(error)?.[0] ?? code) : code
}

/** The error's message, with a name and words for errors that Node does not know. */
export function messageOf(error: unknown): string {
  const { code, message = '' } = (error as SystemError) ?? {}
  const known = typeof code === 'string' && unnamed.test(code) ? described(error) : null
  if (known === null) return message
  const [name, text] = known
  return `${name}: ${text}${message.replace(/^(?:Unknown system error -?\d+|UNKNOWN): (?:Unknown system error -?\d+|unknown error)/, '')}`
}

/** Whether there was no room: no space, or no more of the quota. */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'ENOSPC' || code === 'EDQUOT'
}

function described(error: unknown): [name: string, words: string] | null {
  const { code, errno } = error as NodeJS.ErrnoException
  const number = Math.abs(errno ?? Number(/-?\d+$/.exec(code as string)?.[0]))
  const [name] = Object.entries(constants.errno).find(([, value]) => value === number) ?? []
  if (name !== undefined) return [name, words[name] ?? `error ${number}`]
  return (process.platform === 'linux' && ofLinux[number]) || null
}
