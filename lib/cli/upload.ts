import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Body } from './client.js'

const readBytes = 256 * 1024

export interface UploadFile {
  /** The form field. */
  field: string
  filename: string
  /** Where its bytes are; they must not change meanwhile. */
  path: string
  bytes: number
}

/**
 * A form with one file as a body of known length (RFC 7578), read from disk as it is sent. The fields come first, so
 * that the server knows them before the file. `onProgress` is told the bytes of the file handed over so far.
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

/** RFC 7578 §2 leaves it open; this is what browsers do (HTML Living Standard §4.10.21.8). */
function escapeName(name: string): string {
  return name.replace(/\r/g, '%0D').replace(/\n/g, '%0A').replace(/"/g, '%22')
}
