/* Schemas of values that several records have, and of common responses. */
import type { BulkOutcome } from '../../../model/bulk.js'
import { constant, integer, list, nullable, record, text } from '../schema.js'

/** The id of a project. */
export const projectId = text('proj_1a2b3c4d5e6f7a8b')

/** The id of a deployment. */
export const deployId = text('dep_1a2b3c4d5e6f7a8b')

/** A text or null. */
export const nullableText = nullable(text('text'), null)

/** A size in bytes. */
export const bytes = integer(1024, { minimum: 0, description: 'Bytes' })

/** A size in bytes, or null. */
export const nullableBytes = nullable(bytes)

/** The statuses of a deployment. */
export const statuses = ['queued', 'running', 'success', 'failed'] as const

/** The environment of a project. */
export const env = text('production')

/** The target of a project. */
export const deployPath = text('/srv/shop')

/** A SHA-256 checksum. */
export const sha256 = text('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08')

/** A sentence about a result. */
export const message = text('The project was deleted')

/** The field `success` of a successful response. */
export const success = constant(true)

/** A response `{success: true, message}`. */
export const done = record<{ success: true; message: string }>({ success, message })

/** The result of a bulk change. */
export const bulkOutcome = {
  done: integer(2),
  failed: list(record<BulkOutcome['failed'][number]>({ id: projectId, error: text('Not found') }))
}
