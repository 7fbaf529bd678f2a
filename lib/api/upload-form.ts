import type { Readable } from 'node:stream'
import { Refusal, invalid } from '../base/refusal.js'
import type { Received } from '../deploy/deployer.js'
import { parseMultipart } from '../http/multipart.js'
import type { ApiRequest } from './route.js'

/** The form of an upload, read to its end: the file on disk, the other fields as text. */
export interface UploadForm {
  received: Received
  fields: Map<string, string>
}

interface Handlers {
  /** Takes the file's bytes as they come. */
  receive(bytes: Readable): Promise<Received>
  /** Called for each field as it comes; what it throws ends the reading. */
  onField(name: string, value: string): void
}

/**
 * Reads the form, its parts in any order. Whatever is wrong with it, and wherever it breaks off, no file remains.
 * Refuses: 415 another content type, 400 a broken form, a field or file given twice, no file part.
 */
export async function readUploadForm(request: ApiRequest, { receive, onField }: Handlers): Promise<UploadForm> {
  const fields = new Map<string, string>()
  let received: Received | undefined
  try {
    await parseMultipart(request.body, request.headers['content-type'], {
      signal: request.signal,
      field(name, value) {
        if (name === 'file') throw invalid('file', '"file" is a text: the archive must come as a file part')
        if (fields.has(name)) throw invalid(name, `"${name}" is given twice`)
        onField(name, value)
        fields.set(name, value)
      },
      async file({ name, stream }) {
        if (name !== 'file') throw invalid(name, `"${name}" is a file: only "file", the archive, may be one`)
        if (received !== undefined) throw invalid('file', '"file" is given twice: one archive is deployed at a time')
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
  return new Refusal('invalid', 'no_file', 'There is nothing to deploy: the form has no part "file"', { field: 'file' })
}
