import { request as httpRequest, type IncomingMessage } from 'node:http'
import { formOf, type FormFields } from './client.js'

/** A complete answer. */
export interface Answer {
  status: number
  body: any
  text: string
}

export interface UploadSteps {
  /** Called when half of the form was passed to the system. */
  onHalf?(): void
  /** Called when the whole form was passed to the system. */
  onSent?(): void
  /** Called with the head of the answer: what it says is acknowledged. */
  onHead?(status: number, deployId: string | undefined): void
}

/** Sends requests to a server that may be killed at any moment. Returns null for an incomplete answer. */
export interface CrashClient {
  call(
    method: string,
    path: string,
    token: string,
    body?: unknown,
    headers?: Record<string, string>,
    steps?: UploadSteps
  ): Promise<Answer | null>
  /** Returns the bytes of an answer; null: it is incomplete, or none that was wished for. */
  bytes(path: string, token: string): Promise<Buffer | null>
  upload(token: string, fields: FormFields, steps: UploadSteps): Promise<Answer | null>
}

export function createCrashClient(url: string): CrashClient {
  function exchange(
    method: string,
    path: string,
    headers: Record<string, string>,
    body: Buffer | null,
    steps: UploadSteps
  ): Promise<Answer | null> {
    return new Promise(resolve => {
      const lost = (): void => resolve(null)
      const length: Record<string, string> = body === null ? {} : { 'content-length': String(body.length) }
      const request = httpRequest(url + path, { method, agent: false, headers: { ...length, ...headers } }, reply => {
        steps.onHead?.(reply.statusCode as number, reply.headers['x-svc-deploy-id'] as string | undefined)
        void textOf(reply).then(text =>
          resolve(text === null ? null : { status: reply.statusCode as number, text, body: parsed(text) })
        )
      })
      request.once('error', lost).once('finish', () => steps.onSent?.())
      if (body === null) return void request.end()
      const half = body.length >> 1
      request.write(body.subarray(0, half), () => steps.onHalf?.())
      request.end(body.subarray(half))
    })
  }

  return {
    call(method, path, token, body, headers = {}, steps = {}) {
      const authorization: Record<string, string> = token === '' ? {} : { authorization: `Bearer ${token}` }
      if (body === undefined) return exchange(method, path, { ...authorization, ...headers }, null, steps)
      const bytes = Buffer.from(JSON.stringify(body))
      return exchange(method, path, { 'content-type': 'application/json', ...authorization, ...headers }, bytes, steps)
    },
    bytes: (path, token) =>
      new Promise(resolve => {
        const lost = (): void => resolve(null)
        const headers = { authorization: `Bearer ${token}` }
        httpRequest(url + path, { agent: false, headers }, reply => {
          void bytesOf(reply).then(bytes => resolve(reply.statusCode === 200 ? bytes : null))
        })
          .once('error', lost)
          .end()
      }),
    upload(token, fields, steps) {
      const { contentType, body } = formOf(fields)
      return exchange(
        'POST',
        '/api/deploy/upload',
        { 'content-type': contentType, authorization: `Bearer ${token}` },
        body,
        steps
      )
    }
  }
}

/** Returns null if the stream was cut. */
async function textOf(reply: IncomingMessage): Promise<string | null> {
  return (await bytesOf(reply))?.toString('utf8') ?? null
}

async function bytesOf(reply: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of reply) chunks.push(chunk as Buffer)
  } catch {
    return null
  }
  return reply.complete ? Buffer.concat(chunks) : null
}

/** Returns the last line of a stream. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    try {
      return JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')
    } catch {
      return undefined
    }
  }
}
