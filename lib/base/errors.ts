// Imported as a whole: Node before 18.15 has no `statfs`.
import * as fs from 'node:fs'
import { constants } from 'node:os'
import { dirname } from 'node:path'

/** The kind of failure that caused a refusal. Each edge maps it once, to an HTTP status or an exit code. */
export type RefusalKind =
  | 'invalid'
  | 'usage'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method'
  | 'conflict'
  | 'precondition'
  | 'too_large'
  | 'unsupported_type'
  | 'misdirected'
  | 'upgrade'
  | 'too_many'
  | 'timed_out'
  | 'unsupported'
  | 'bad_gateway'
  | 'unavailable'

/** Optional fields of a refusal. */
interface RefusalDetails {
  /** The invalid input as the user wrote it: `deployPath`, `items[3].filePath`, `--limit`. */
  field?: string
  /** Seconds after which a retry may succeed (`Retry-After`). */
  retryAfterSeconds?: number
  /** The record that is in the way. The answer names it in a field after its kind, for example `conflictProject`. */
  other?: OtherRecord | undefined
  cause?: unknown
}

/** The kinds of records that a refusal names. */
export const otherKinds = ['project', 'category', 'tag', 'token', 'node', 'deployment'] as const

/** A record that is in the way of a request. */
export interface OtherRecord {
  kind: (typeof otherKinds)[number]
  id: string
  name?: string
}

/**
 * A failure that the user caused or can fix. Any layer may throw it; every other exception is a bug. The code is stable
 * snake_case and listed in docs/errors.md. The sentence says what failed, why, and what to do. It never contains a
 * secret.
 */
export class Refusal extends Error {
  readonly kind: RefusalKind
  readonly code: string
  readonly field: string | undefined
  readonly retryAfterSeconds: number | undefined
  readonly other: OtherRecord | undefined

  // biome-ignore lint/complexity/useMaxParams: a refusal always has a kind, a code and a sentence
  constructor(kind: RefusalKind, code: string, sentence: string, details: RefusalDetails = {}) {
    super(sentence, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'Refusal'
    this.kind = kind
    this.code = code
    this.field = details.field
    this.retryAfterSeconds = details.retryAfterSeconds
    this.other = details.other
  }
}

/** Returns the field of an answer that names a record in the way: `conflictProject`. */
export function otherField(kind: OtherRecord['kind']): `conflict${string}` {
  return `conflict${kind.charAt(0).toUpperCase()}${kind.slice(1)}`
}

/** Returns a 400 that names the field. */
export function invalid(field: string, sentence: string): Refusal {
  return new Refusal('invalid', 'invalid_field', sentence, { field })
}

/** Returns a 404. `what` is the noun, and `id` the requested id. */
export function notFound(what: string, id: string): Refusal {
  return new Refusal('not_found', 'not_found', `${what} not found: "${id}"`)
}

/** Returns the refusal of a name that another record has: 409 `name_taken`. */
export function nameTaken(name: string, other: OtherRecord): Refusal {
  const sentence = `The name "${name}" is already used: names must be unique, ignoring case`
  return new Refusal('conflict', 'name_taken', sentence, { field: 'name', other })
}

/*
 * Errors of system calls, by the names of errno(3). Only this file turns a name into words. Node does not know every
 * number: it reports an exceeded quota (EDQUOT) as "Unknown system error -122", in some versions as "UNKNOWN: unknown
 * error". The numbers depend on the system, so they are looked up among the constants that Node was compiled with.
 */

type SystemError = Partial<NodeJS.ErrnoException> | null | undefined

const unknownIssuer =
  'its certificate is signed by an unknown authority (start svc with NODE_EXTRA_CA_CERTS=<file> to trust it; for ' +
  'notifications, checks and telemetry, the setting outgoing_ca names a file)'

/** Stands for ENOSPC without a free inode: the system has one name for both. */
const outOfInodes = 'inodes'

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
  EXDEV: 'cross-device link',
  [outOfInodes]: 'no inodes left on device'
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
  const code = isOutOfInodes(error) ? outOfInodes : codeOf(error)
  return words[code] ?? described(error)?.[1] ?? ((error as SystemError)?.message || code || String(error))
}

/** What a system call was to do with its path. */
const acts: Readonly<Record<string, string>> = {
  access: 'read',
  chmod: 'change the permissions of',
  chown: 'change the owner of',
  copyfile: 'copy',
  fsync: 'write',
  link: 'link',
  lstat: 'look at',
  mkdir: 'create the directory',
  open: 'open',
  opendir: 'list',
  read: 'read',
  readlink: 'read the link',
  realpath: 'look up',
  rename: 'rename',
  rm: 'remove',
  rmdir: 'remove',
  scandir: 'list',
  spawn: 'start',
  stat: 'look at',
  symlink: 'create the link',
  unlink: 'remove',
  utime: 'change the times of',
  write: 'write'
}

/** Returns a sentence for an error that names a system call and a path, otherwise its message. */
export function sentenceOf(error: unknown): string {
  const { syscall = '', path = '' } = (error as SystemError) ?? {}
  if (syscall === 'uv_cwd') return 'The current directory does not exist any more. Change to another one'
  const act = acts[syscall.replace(/ .*/, '')]
  if (path === '') return act === 'write' ? `Cannot write: ${reasonOf(error)}` : messageOf(error)
  if (syscall === 'mkdtemp') {
    const place = path.replace(/[\\/][^\\/]*$/, '')
    return `Cannot create a temporary directory in "${place}": ${reasonOf(error)}. Set TMPDIR to a directory that you can write to`
  }
  return act === undefined ? messageOf(error) : `Cannot ${act} "${path}": ${reasonOf(error)}`
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

/** What ENOSPC means where the file system has space, and no room for another name. */
export const noInodes = words[outOfInodes] as string

/** Whether a call failed with ENOSPC because the file system of its path has no free inode. `nameError` (files.ts) notes it. */
export function isOutOfInodes(error: unknown): boolean {
  const { message = '', path = '', syscall } = (error as SystemError) ?? {}
  if (codeOf(error) !== 'ENOSPC') return false
  if (message.includes(noInodes)) return true
  // A write needs no inode.
  if (path === '' || syscall === 'write' || typeof fs.statfsSync !== 'function') return false
  try {
    const { files, ffree } = fs.statfsSync(dirname(path))
    return files > 0 && ffree === 0
  } catch {
    return false
  }
}

/** Returns what to do about a full disk, as the beginning of a sentence. */
export function spaceCure(error: unknown): string {
  return isOutOfInodes(error) ? 'Remove some files' : 'Free some space'
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

/** An error in a form that can be sent between threads, which would otherwise lose its class and its fields. */
export type PackedError =
  | { kind: 'refusal'; refusal: { kind: RefusalKind; code: string; message: string; field: string | undefined } }
  | { kind: 'error'; message: string; code: string | undefined; syscall: string | undefined; stack: string | undefined }

/** Packs an error for `postMessage`. */
export function packError(error: unknown): PackedError {
  if (error instanceof Refusal) {
    const { kind, code, message, field } = error
    return { kind: 'refusal', refusal: { kind, code, message, field } }
  }
  const plain = (error instanceof Error ? error : new Error(String(error))) as NodeJS.ErrnoException
  const { syscall, stack } = plain
  return { kind: 'error', message: messageOf(plain), code: codeOf(plain) || undefined, syscall, stack }
}

/** Returns the error that was packed. */
export function unpackError(packed: PackedError): Error {
  if (packed.kind === 'refusal') {
    const { kind, code, message, field } = packed.refusal
    return new Refusal(kind, code, message, field === undefined ? {} : { field })
  }
  const { message, code, syscall, stack } = packed
  return Object.assign(new Error(message), { stack, ...(code && { code }), ...(syscall && { syscall }) })
}
