/*
 * Errors of system calls, by the names of errno(3). Only this file turns a name into words. Node does not know every
 * number: it reports an exceeded quota (EDQUOT) as "Unknown system error -122", in some versions as "UNKNOWN: unknown
 * error". The numbers depend on the system, so they are looked up among the constants that Node was compiled with.
 */
import { constants } from 'node:os'

type SystemError = Partial<NodeJS.ErrnoException> | null | undefined

const unknownIssuer =
  'its certificate is signed by an unknown authority (start svc with NODE_EXTRA_CA_CERTS=<file> to trust it; for ' +
  'notifications and checks, the setting outgoing_ca names a file)'

/** The usual words for each name, also of errors of TLS. A message continues with what to do. */
const words: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet, or a clock is wrong',
  // An authority of the same name, with another key.
  CERT_SIGNATURE_FAILURE: unknownIssuer,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownIssuer,
  E2BIG: 'argument list too long',
  EACCES: 'permission denied',
  EADDRINUSE: 'address already in use',
  EADDRNOTAVAIL: 'address not available',
  EAFNOSUPPORT: 'address family not supported',
  EAI_AGAIN: 'temporary failure in name resolution',
  EAI_NONAME: 'host not found',
  EBUSY: 'resource busy',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset by peer',
  EDEADLK: 'resource deadlock avoided',
  EDQUOT: 'disk quota exceeded',
  EEXIST: 'file already exists',
  EHOSTUNREACH: 'host unreachable',
  EINVAL: 'invalid argument',
  EIO: 'input/output error',
  EISDIR: 'is a directory',
  ELOOP: 'too many symbolic links',
  EMFILE: 'too many open files',
  EMULTIHOP: 'multihop attempted',
  ENAMETOOLONG: 'file name too long',
  ENETUNREACH: 'network unreachable',
  ENFILE: 'too many open files in the system',
  ENODEV: 'no such device',
  ENOENT: 'no such file or directory',
  ENOLCK: 'no locks available',
  ENOLINK: 'link has been severed',
  ENOMEM: 'not enough memory',
  ENOSPC: 'no space left on device',
  ENOTDIR: 'not a directory',
  ENOTEMPTY: 'directory not empty',
  ENOTFOUND: 'host not found',
  ENOTSUP: 'operation not supported',
  ENXIO: 'no such device or address',
  EOPNOTSUPP: 'operation not supported',
  EPERM: 'operation not permitted',
  EPIPE: 'broken pipe',
  EROFS: 'read-only file system',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  SELF_SIGNED_CERT_IN_CHAIN: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownIssuer,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownIssuer,
  ESTALE: 'stale file handle',
  ETIMEDOUT: 'timed out',
  EXDEV: 'cross-device link'
}

/** Names that are missing from Node's constants. EUCLEAN is Linux's name for a damaged file system. */
const ofLinux: Record<number, [name: string, words: string]> = {
  117: ['EUCLEAN', 'structure needs cleaning'],
  121: ['EREMOTEIO', 'remote I/O error'],
  123: ['ENOMEDIUM', 'no medium found']
}

const unnamed = /^(?:Unknown system error|UNKNOWN)/

/** Returns the name of a system error (`EDQUOT`), otherwise the error's own code, or '' if it is missing. */
export function codeOf(error: unknown): string {
  const { code } = (error as SystemError) ?? {}
  if (typeof code !== 'string') return ''
  return described(error)?.[0] ?? code
}

/** Returns the error's message, with a name and words for errors that Node does not know. */
export function messageOf(error: unknown): string {
  const { message = '' } = (error as SystemError) ?? {}
  const known = described(error)
  if (known === null) return message
  const [name, text] = known
  return `${name}: ${text}${message.replace(/^(?:Unknown system error -?\d+|UNKNOWN): (?:Unknown system error -?\d+|unknown error)/, '')}`
}

/**
 * Returns why a system call failed, as part of a sentence: `no space left on device`. For other errors, returns the
 * message.
 */
export function reasonOf(error: unknown): string {
  const code = codeOf(error)
  return words[code] ?? described(error)?.[1] ?? ((error as SystemError)?.message || code || String(error))
}

/** Whether the error has one of these codes, for example `ENOENT`. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes(codeOf(error))
}

/** Whether the system denied the call: EACCES, or EPERM. */
export function isDenied(error: unknown): boolean {
  return hasCode(error, 'EACCES', 'EPERM')
}

/** Whether the device has no space left, or the quota is used up. */
export function isDiskFull(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT')
}

/** Whether TLS refused the other side, its certificate or ours: every later attempt fails until somebody changes something. */
export function isTlsRefusal(error: unknown): boolean {
  const code = codeOf(error)
  return code.startsWith('ERR_SSL_') || words[code]?.startsWith('its certificate') === true
}

/** For `.catch()`: returns null if a file does not exist (ENOENT), and throws every other error. */
export function nullIfMissing(error: unknown): null {
  if (hasCode(error, 'ENOENT')) return null
  throw error
}

/** Returns the name and words for the number of a system error that Node does not know. */
function described(error: unknown): [name: string, words: string] | null {
  const { code, errno } = (error as SystemError) ?? {}
  if (typeof code !== 'string' || !unnamed.test(code)) return null
  const number = Math.abs(errno ?? Number(/(?<!\d)\d+$/.exec(code)?.[0]))
  const [name] = Object.entries(constants.errno).find(([, value]) => value === number) ?? []
  if (name !== undefined) return [name, words[name] ?? `error ${number}`]
  return (process.platform === 'linux' && ofLinux[number]) || null
}
