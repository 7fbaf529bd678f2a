import { Refusal, type RefusalKind } from './refusal.js'
import { codeOf, messageOf } from './system-error.js'

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
