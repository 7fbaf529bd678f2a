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
  | 'unavailable'

/** Optional fields of a refusal. */
export interface RefusalDetails {
  /** The invalid input as the user wrote it: `deployPath`, `items[3].filePath`, `--limit`. */
  field?: string
  /** Seconds after which a retry may succeed (`Retry-After`). */
  retryAfterSeconds?: number
  cause?: unknown
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

  // biome-ignore lint/complexity/useMaxParams: a refusal always has a kind, a code and a sentence
  constructor(kind: RefusalKind, code: string, sentence: string, details: RefusalDetails = {}) {
    super(sentence, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'Refusal'
    this.kind = kind
    this.code = code
    this.field = details.field
    this.retryAfterSeconds = details.retryAfterSeconds
  }
}

/** Returns a 400 that names the field. */
export function invalid(field: string, sentence: string): Refusal {
  return new Refusal('invalid', 'invalid_field', sentence, { field })
}

/** Returns a 404. `what` is the noun, and `id` the requested id. */
export function notFound(what: string, id: string): Refusal {
  return new Refusal('not_found', 'not_found', `${what} not found: "${id}"`)
}
