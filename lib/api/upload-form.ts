import type { Readable } from 'node:stream'
import { Refusal, invalid } from '../base/errors.js'
import type { Received } from '../deploy/intake.js'
import { parseMultipart } from '../http/form/multipart.js'
import type { ApiRequest } from './route.js'

/** What an upload holds while it arrives: a block from the socket, and one on its way to the disk. */
const uploadBytes = 512 * 1024

/** A completely read upload form: the file on disk, and the other fields as text. */
export interface UploadForm {
  received: Received
  fields: Map<string, string>
}

interface Handlers {
  /** Stores the bytes of the file while they arrive. */
  receive(bytes: Readable): Promise<Received>
  /** Called for each field when it arrives. If it throws, reading stops with that error. */
  onField(name: string, value: string): void
}

/**
 * Reads an upload form. Its parts may come in any order. After an error, the received file is deleted. Refuses: the
 * codes of `parseMultipart` (415, 400, 413), 400 `invalid_field` for a repeated part or a wrong file part, 400
 * `no_file`, and what `Request.hold` refuses.
 */
export async function readUploadForm(request: ApiRequest, { receive, onField }: Handlers): Promise<UploadForm> {
  const fields = new Map<string, string>()
  let received: Received | undefined
  request.hold(uploadBytes)
  try {
    await parseMultipart(request.body, request.headers['content-type'], {
      signal: request.signal,
      hold: bytes => request.hold(bytes),
      field(name, value) {
        if (name === 'file') throw invalid('file', '"file" is a text field: send it as a file part')
        if (fields.has(name)) throw invalid(name, `"${name}" is given twice`)
        onField(name, value)
        fields.set(name, value)
      },
      async file({ name, stream }) {
        if (name !== 'file') throw invalid(name, `"${name}" is a file: only the part "file" may be one`)
        if (received !== undefined) throw invalid('file', '"file" is given twice: send one file per request')
        received = await receive(stream)
      }
    })
    if (received === undefined) throw noFile()
    return { received, fields }
  } catch (error) {
    await (received as Received | undefined)?.discard()
    throw error
  }
}

function noFile(): Refusal {
  return new Refusal('invalid', 'no_file', 'No file was uploaded: the form has no part "file"', { field: 'file' })
}
