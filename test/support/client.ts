import { appendFileSync } from 'node:fs'
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { createDescription, type Seen } from './described.js'

export interface ClientReply {
  status: number
  headers: IncomingHttpHeaders
  text: string
  /** The body as JSON; undefined if it is not JSON. */
  body: any
}

export interface SendOptions {
  headers?: Record<string, string>
  body?: string | Uint8Array
}

let description: ReturnType<typeof createDescription> | undefined

/** Checks that every response of the API that a test sees matches the description. */
function checkAnswer(seen: Seen): void {
  description ??= createDescription()
  const fault = description.faultOf(seen)
  if (fault === null) return
  const said = `${seen.method} ${seen.path} → ${seen.status}: ${fault}`
  const list = process.env['UNDESCRIBED']
  if (list === undefined) throw new Error(said)
  appendFileSync(list, `${said}\n`)
}

/** A small client over real sockets. Each request has its own connection. */
export interface Client {
  send(method: string, path: string, options?: SendOptions): Promise<ClientReply>
  get(path: string, headers?: Record<string, string>): Promise<ClientReply>
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<ClientReply>
  put(path: string, body?: unknown): Promise<ClientReply>
  patch(path: string, body?: unknown): Promise<ClientReply>
  delete(path: string): Promise<ClientReply>
  /** `POST /api/deploy/upload`: fields in the order given, a file as `{ filename, bytes }`. */
  upload(fields: FormFields, headers?: Record<string, string>): Promise<ClientReply>
  /** The reply with its body unread. */
  open(method: string, path: string, options?: SendOptions): Promise<IncomingMessage>
}

export type FormFields = Array<[name: string, value: string | { filename: string; bytes: Uint8Array }]>

/** Creates a client. `way` adds what the URL lacks: an authority, a socket, a source address. */
export function createClient(url: () => string, token: string | null, way: RequestOptions = {}): Client {
  const authorization: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` }

  function open(method: string, path: string, { headers = {}, body }: SendOptions = {}): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
      const request = (url().startsWith('https:') ? httpsRequest : httpRequest)(
        url() + path,
        { ...way, method, agent: false, headers: { ...authorization, ...length, ...headers } },
        resolve
      )
      request.on('error', reject)
      request.end(body)
    })
  }

  async function send(method: string, path: string, options?: SendOptions): Promise<ClientReply> {
    const reply = await open(method, path, options)
    const text = await textOf(reply)
    const body = parsed(text)
    const status = reply.statusCode as number
    checkAnswer({
      method,
      path: new URL(url() + path).href.slice(new URL(url()).origin.length),
      status,
      contentType: String(reply.headers['content-type']),
      body
    })
    return { status, headers: reply.headers, text, body }
  }

  function sendJson(method: string, path: string, body?: unknown, headers?: Record<string, string>) {
    if (body === undefined) return send(method, path, { ...(headers ? { headers } : {}) })
    return send(method, path, {
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body)
    })
  }

  return {
    open,
    send,
    get: (path, headers) => sendJson('GET', path, undefined, headers),
    post: (path, body, headers) => sendJson('POST', path, body, headers),
    put: (path, body) => sendJson('PUT', path, body),
    patch: (path, body) => sendJson('PATCH', path, body),
    delete: path => sendJson('DELETE', path),
    upload(fields, headers = {}) {
      const { contentType, body } = formOf(fields)
      return send('POST', '/api/deploy/upload', { headers: { 'content-type': contentType, ...headers }, body })
    }
  }
}

/** Returns a form as browsers and curl send it (RFC 7578). */
export function formOf(fields: FormFields): { contentType: string; body: Buffer } {
  const boundary = '----svc-test-7MA4YWxkTrZu0gW'
  const parts = fields.flatMap(([name, value]) => {
    const isFile = typeof value !== 'string'
    const filename = isFile ? `; filename="${value.filename}"\r\nContent-Type: application/zip` : ''
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${filename}\r\n\r\n`
    return [Buffer.from(head), Buffer.from(isFile ? value.bytes : value), Buffer.from('\r\n')]
  })
  const body = Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
  return { contentType: `multipart/form-data; boundary=${boundary}`, body }
}

/** The lines of an NDJSON reply. */
export function eventsOf(reply: { text: string }): any[] {
  return reply.text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))
}

export interface SentEvent {
  event: string
  id: string | undefined
  data: any
}

/** Returns the events of a finished SSE stream without its comments. */
export function sentEventsOf(text: string): SentEvent[] {
  return text.split('\n\n').flatMap(block => {
    const fields = new Map(
      block.split('\n').map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)])
    )
    const data = fields.get('data')
    return data === undefined
      ? []
      : [{ event: fields.get('event') ?? '', id: fields.get('id'), data: JSON.parse(data) }]
  })
}

async function textOf(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of message) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
