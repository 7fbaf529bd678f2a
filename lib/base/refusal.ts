/** What the user did, or met, that made the refusal; each edge translates it once (HTTP status, exit code). */
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

export interface RefusalDetails {
  /** The input that is at fault, as the user wrote it: `deployPath`, `items[3].filePath`, `--limit`. */
  field?: string
  /** Seconds after which trying again may help (`Retry-After`). */
  retryAfterSeconds?: number
  cause?: unknown
}

/**
 * A failure that the user caused, or can cure. Thrown from any layer; everything else that is thrown is a bug.
 * The code is stable snake_case and listed in docs/api.md; the sentence says what could not be done, why, and what
 * would be right. It never holds a secret.
 */
export class Refusal extends Error {
  readonly kind: RefusalKind
  readonly code: string
  readonly field: string | undefined
  readonly retryAfterSeconds: number | undefined

  constructor(kind: RefusalKind, code: string, sentence: string, details: RefusalDetails = {}) {
    super(sentence, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'Refusal'
    this.kind = kind
    this.code = code
    this.field = details.field
    this.retryAfterSeconds = details.retryAfterSeconds
  }
}

/** A 400 that names the field. */
export function invalid(field: string, sentence: string): Refusal {
  return new Refusal('invalid', 'invalid_field', sentence, { field })
}

/** A 404: `what` is the noun, `id` what was asked for. */
export function notFound(what: string, id: string): Refusal {
  return new Refusal('not_found', 'not_found', `${what} not found: there is none with the id "${id}"`)
}
