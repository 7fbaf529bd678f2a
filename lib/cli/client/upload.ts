import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Body } from './client.js'

const readBytes = 256 * 1024

/** The file of a form. */
export interface UploadFile {
  /** Name of the form field. */
  field: string
  filename: string
  /** Path of the file. It must not change during the upload. */
  path: string
  bytes: number
}

/**
 * Returns a multipart form with one file as a body of known length (RFC 7578). It reads the file from disk while
 * sending. The fields come first, so that the server knows them before the file. `onProgress` receives the bytes sent
 * so far.
 */
export function formBody(fields: Record<string, string>, file: UploadFile, onProgress: (bytes: number) => void): Body {
  const boundary = `svc-${randomBytes(16).toString('hex')}`
  const parts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\n${disposition(name)}\r\n\r\n${value}\r\n`
  )
  const head = Buffer.from(
    `${parts.join('')}--${boundary}\r\n${disposition(file.field)}; filename="${escapeName(file.filename)}"\r\n` +
      'Content-Type: application/zip\r\n\r\n'
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)

  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    bytes: head.length + file.bytes + tail.length,
    async *chunks() {
      yield head
      let sent = 0
      for await (const chunk of createReadStream(file.path, { highWaterMark: readBytes }) as AsyncIterable<Buffer>) {
        yield chunk
        sent += chunk.length
        onProgress(sent)
      }
      yield tail
    }
  }
}

function disposition(name: string): string {
  return `Content-Disposition: form-data; name="${escapeName(name)}"`
}

/** Escapes a name as browsers do (HTML Living Standard §4.10.21.8); RFC 7578 §2 does not define it. */
function escapeName(name: string): string {
  return name.replace(/\r/g, '%0D').replace(/\n/g, '%0A').replace(/"/g, '%22')
}
