import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { type AgentReport, type DesiredLine, requestText } from '../../lib/model/fleet-wire.js'

/** An answer of the hub. */
export interface AgentReply {
  status: number
  headers: IncomingMessage['headers']
  body: Buffer
  /** The body as JSON. */
  json: { success: boolean; code?: string; session?: string; [field: string]: unknown }
}

/** What a request of an agent contains that is not as it should be. */
export interface Forged {
  session?: string
  counter?: number | string
  bodySha256?: string
  authorization?: string
  headers?: Record<string, string>
}

/** An agent of protocol 1 without a node: it signs requests, and does what the test says. */
export class FakeAgent {
  /** The URL of the hub. */
  url: string
  readonly #key: KeyObject
  readonly publicKey: string
  nodeId = ''
  name = ''
  hubKey = ''
  session = 'none'
  #counter = 0

  constructor(url: string) {
    this.url = url
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    this.#key = privateKey
    this.publicKey = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url').toString('base64')
  }

  async enroll(token: string, name = 'plant-a'): Promise<AgentReply> {
    const body = Buffer.from(JSON.stringify({ token, publicKey: this.publicKey, name, labels: {}, version: '2.0.0' }))
    const reply = await this.#send('POST', '/api/agent/enroll', { body, headers: {} })
    Object.assign(this, { nodeId: reply.json['nodeId'], name: reply.json['name'], hubKey: reply.json['hubKey'] })
    return reply
  }

  /** Begins a session. */
  async begin(): Promise<void> {
    const reply = await this.request('POST', '/api/agent/session', undefined, {
      session: '-',
      counter: randomBytes(9).toString('base64url')
    })
    this.session = reply.json.session ?? 'none'
  }

  request(method: string, path: string, value?: unknown, forged: Forged = {}): Promise<AgentReply> {
    const body = value === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(value))
    return this.#send(method, path, { body, headers: this.headersOf({ method, path, body }, forged) })
  }

  headersOf({ method, path, body }: { method: string; path: string; body: Buffer }, forged: Forged = {}) {
    const bodySha256 = forged.bodySha256 ?? createHash('sha256').update(body).digest('hex')
    const { session = this.session, counter = ++this.#counter } = forged
    const text = requestText({ nodeId: this.nodeId, session, counter, method, path, bodySha256 })
    const signature = sign(null, Buffer.from(text), this.#key).toString('base64url')
    const authorization = forged.authorization ?? `SvcNode ${this.nodeId} ${session} ${counter} ${signature}`
    return { authorization, 'svc-content-sha256': bodySha256, ...forged.headers }
  }

  report(report: Partial<AgentReport> = {}): Promise<AgentReply> {
    const nothing: AgentReport = { version: '2.0.0', freeBytes: null, answers: [], placements: [] }
    return this.request('POST', '/api/agent/reports', { ...nothing, ...report })
  }

  /** Sends a part of the answer to a relayed request. */
  part(id: string, bytes: Buffer, { number = 1, isLast = true } = {}): Promise<AgentReply> {
    const path = `/api/agent/relays/${id}?part=${number}${isLast ? '&last=1' : ''}`
    return this.#send('POST', path, { body: bytes, headers: this.headersOf({ method: 'POST', path, body: bytes }) })
  }

  /** Opens the stream. `next` resolves with its next line that is no heartbeat; null: it has ended. */
  async follow(): Promise<{ next(): Promise<DesiredLine | null>; close(): void }> {
    const path = '/api/agent/desired'
    const headers = this.headersOf({ method: 'GET', path, body: Buffer.alloc(0) })
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      httpRequest(this.url + path, { headers, agent: false }, resolve)
        .on('error', reject)
        .end()
    })
    if (response.statusCode !== 200) throw new Error(`The stream was refused: ${response.statusCode}`)
    const lines: DesiredLine[] = []
    let wake = (): void => {}
    let isOver = false
    const reader = createInterface({ input: response })
    reader.on('line', line => {
      const read = JSON.parse(line) as DesiredLine
      if (read.type !== 'heartbeat') lines.push(read)
      wake()
    })
    const end = (): void => {
      isOver = true
      wake()
    }
    reader.on('close', end)
    response.on('error', end)
    return {
      async next() {
        while (lines.length === 0 && !isOver) await new Promise<void>(resolve => (wake = resolve))
        return lines.shift() ?? null
      },
      close: () => response.destroy()
    }
  }

  #send(
    method: string,
    path: string,
    { body, headers }: { body: Buffer; headers: Record<string, string> }
  ): Promise<AgentReply> {
    const type = body.length === 0 ? {} : { 'content-type': 'application/json', 'content-length': String(body.length) }
    return new Promise((resolve, reject) => {
      const request = httpRequest(this.url + path, { method, headers: { ...type, ...headers } }, response => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const bytes = Buffer.concat(chunks)
          const isJson = String(response.headers['content-type']).startsWith('application/json')
          const json = isJson ? (JSON.parse(bytes.toString()) as AgentReply['json']) : { success: false }
          resolve({ status: response.statusCode as number, headers: response.headers, body: bytes, json })
        })
      })
      request.on('error', reject)
      request.end(body)
    })
  }
}

/** Makes a machine a node of a hub, and begins its session. */
export async function enrolledAgent(
  { url, hub }: { url: string; hub: Pick<import('../../lib/fleet/hub/hub.js').Hub, 'enrollments'> },
  name = 'plant-a'
): Promise<FakeAgent> {
  const agent = new FakeAgent(url)
  const given = { name, labels: {}, seconds: 60 }
  const { token } = await hub.enrollments.create(given, { name: 'admin', ip: null })
  await agent.enroll(token)
  await agent.begin()
  return agent
}
