import { isTlsRefusal, Refusal } from '../../../base/errors.js'

/** The codes of gRPC that matter here: https://grpc.io/docs/guides/status-codes/. */
const [invalidArgument, deadlineExceeded, notFound, exhausted, outOfRange, unavailable, unauthenticated] = [
  3, 4, 5, 8, 11, 14, 16
]

/** An error that etcd answered with. */
export class EtcdError extends Error {
  readonly code: number
  /** Whether an earlier attempt at the same request got no answer: it may still be carried out. */
  isRepeated = false

  constructor(code: number, message: string) {
    super(`etcd: ${message.replace(/^etcdserver: /, '')}`)
    this.name = 'EtcdError'
    this.code = code
  }

  /** Whether another member, or the same one in a moment, may do it: there is no leader, or it answered too late. */
  get isPassing(): boolean {
    return this.code === unavailable || this.code === deadlineExceeded || /too many requests/.test(this.message)
  }

  /** Whether a new token is needed: the old one is unknown, or rights have changed since. */
  get isTokenRefused(): boolean {
    return (
      this.code === unauthenticated ||
      (this.code === invalidArgument && /revision of auth store is old|user name is empty/.test(this.message))
    )
  }

  /** Whether a revision was asked for that was compacted. */
  get isCompacted(): boolean {
    return this.code === outOfRange && /compacted/.test(this.message)
  }

  /** Whether etcd has no space left (alarm NOSPACE), so that it refuses everything that is new. */
  get isFull(): boolean {
    return this.code === exhausted && /space/.test(this.message)
  }

  get isNotFound(): boolean {
    return this.code === notFound
  }
}

/** Time after which etcd usually answers again, and the hubs have a leader. */
export const etcdRetrySeconds = 3

/** No member of etcd did what was asked in time. Whether one of them did it without an answer is unknown. */
export class Unreachable extends Error {
  constructor(members: number, last: unknown) {
    const of = members === 1 ? 'etcd does not answer' : `None of the ${members} members of etcd answers`
    super(last instanceof Error ? `${of}: ${last.message}` : of, { cause: last })
    this.name = 'Unreachable'
  }

  /** Whether a later attempt may be answered: it may not if a certificate is refused. */
  get isPassing(): boolean {
    return !isTlsRefusal(this.cause)
  }
}

/**
 * Returns the refusal for an operator if etcd did not answer (`no_leader`) or refused what was asked (`etcd_refused`), for
 * example because of a wrong password; else the error.
 */
export function explainEtcd(error: unknown, what: string): unknown {
  if (error instanceof Unreachable) {
    const options = { cause: error, ...(error.isPassing && { retryAfterSeconds: etcdRetrySeconds }) }
    return new Refusal('unavailable', 'no_leader', `${what}: ${error.message}`, options)
  }
  if (!(error instanceof EtcdError)) return error
  const sentence = `${what}: ${error.message}. Check the user and the password of etcd, and what its role may do`
  return new Refusal('unavailable', 'etcd_refused', sentence, { cause: error })
}

/** Returns the error of an answer with another status than 200. */
export function errorOf(status: number, text: string): EtcdError {
  try {
    const { code, message, error } = JSON.parse(text) as { code?: number; message?: string; error?: string }
    return new EtcdError(code ?? unavailable, message ?? error ?? `status ${status}`)
  } catch {
    return new EtcdError(unavailable, `status ${status}, which is not an answer of etcd's JSON gateway`)
  }
}
