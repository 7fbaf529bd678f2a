import { createHash, createPublicKey, generateKeyPairSync, randomBytes, sign, verify } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import * as http from 'node:http'
import * as https from 'node:https'
import type { AddressInfo } from 'node:net'
import {
  type AgentReport,
  type Asked,
  type BlobRanges,
  type DesiredLine,
  hubKeyText,
  lineText,
  type OrderLine,
  type RelayedRequest,
  type ReleaseDocument,
  releaseText,
  requestText,
  sessionText,
  type SignedHubKey
} from '../../lib/model/fleet-wire.js'
import type { NodeAnswer, OrderAction } from '../../lib/model/rollout.js'
import { zipOf } from './zip.js'

/*
 * A hub without rules: it sends the orders that a test wants, and remembers what agents say. It verifies every signature,
 * and every request is sent by an agent once.
 */

type Answer = AgentReport['answers'][number]

/** A part of the answer to a relayed request. */
export interface RelayPart {
  id: string
  part: number
  last: boolean
  body: Buffer
}

/** A release that the hub can send. */
export interface FakeRelease extends ReleaseDocument {
  archive: Buffer
}

/** A hub for tests. */
export interface FakeHub {
  url: string
  /** An enrollment token, valid once. */
  token(): string
  /** The node that enrolled last. */
  nodeId(): string
  /** The requests, as `METHOD path`. */
  readonly seen: string[]
  readonly reports: AgentReport[]
  readonly parts: RelayPart[]
  /** The number of open streams. */
  streams(): number
  /** Makes a release of these files. */
  release(projectId: string, files: Record<string, string>, more?: Partial<FakeRelease>): Promise<FakeRelease>
  /** Sends an order, and again to each new stream. The number of the rollout is 1 unless `number` says otherwise. */
  order(release: FakeRelease, action: OrderAction, more?: Partial<OrderLine>): OrderLine
  send(line: DesiredLine): void
  relay(request: RelayedRequest): string
  input(id: string, number: number, bytes: string): void
  /** Waits for an answer to an order. */
  answer(order: OrderLine, answer: NodeAnswer): Promise<Answer>
  /** Waits until a report says this. */
  reported(is: (report: AgentReport) => boolean): Promise<AgentReport>
  /** Waits until parts of a relay say this. */
  relayed(is: (parts: RelayPart[]) => boolean): Promise<RelayPart[]>
  /** Waits until a stream is open. */
  connected(): Promise<void>
  /** Breaks all connections. */
  cut(): void
  /** Forgets all sessions. */
  forgetSessions(): void
  /** Sends a text to all streams. */
  write(text: string): void
  /** Returns the text of a line as the hub would send it to the last stream; the next line has the number after it. */
  sealed(line: DesiredLine): string
  /** Replaces the key. The streams are not told. Returns the line that says so, as the key before has signed it. */
  rotate(): DesiredLine
  /** Tells the streams the last key, with the key before. */
  tellKey(): void
  /** What the hub has answered. */
  readonly recorded: { sessions: string[] }
  /** The history of the hub. */
  epoch: string
  /** Called for each request; true means that it has been answered. */
  intercept: ((request: http.IncomingMessage, response: http.ServerResponse) => boolean) | null
  heartbeatMs: number | null
  close(): Promise<void>
}

/** Options of a fake hub. */
export interface FakeHubOptions {
  base?: string
  port?: number
  tls?: { cert: string; key: string }
}

/** Starts a fake hub, closed after the test. */
export async function startFakeHub(
  t: { teardown(work: () => unknown): void },
  { base = '', port = 0, tls }: FakeHubOptions = {}
): Promise<FakeHub> {
  const events = new EventEmitter().setMaxListeners(0)
  let keys = generateKeyPairSync('ed25519')
  const publicKey = (): Buffer => keys.publicKey.export({ type: 'spki', format: 'der' }).subarray(12)
  const signed = (text: string, { privateKey } = keys): string =>
    sign(null, Buffer.from(text), privateKey).toString('base64')
  const followers: SignedHubKey[] = []
  let earlier = keys
  const nodes = new Map<string, { key: Buffer; sessions: Map<string, Set<number>> }>()
  const tokens = new Set<string>()
  const releases = new Map<string, FakeRelease>()
  const orders = new Map<string, OrderLine>()
  const streams = new Map<http.ServerResponse, Asked & { count: number; openedMs: number }>()
  const seen: string[] = []
  const reports: AgentReport[] = []
  const parts: RelayPart[] = []
  let [lastNode, attempts] = ['', 0]

  function sealedFor(stream: Asked & { count: number; openedMs: number }, line: DesiredLine, key = keys): string {
    const json = JSON.stringify({ ...line, line: ++stream.count, ms: Math.round(performance.now() - stream.openedMs) })
    return `${json.slice(0, -1)},"seal":"${signed(lineText(stream, stream.count, json), key)}"}\n`
  }
  function send(response: http.ServerResponse, line: DesiredLine, key = keys): void {
    const stream = streams.get(response)
    if (stream !== undefined) response.write(sealedFor(stream, line, key))
  }
  const refuse = (response: http.ServerResponse, status: number, code: string): void =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ success: false, error: `Refused: ${code}`, code }))
  const answer = (response: http.ServerResponse, value: unknown): void =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))

  /** Returns the node and the session of a signed request, or a code that refuses it. */
  function callerOf(request: http.IncomingMessage, body: Buffer): Asked | string {
    const [scheme, nodeId = '', session = '', counter = '', signature = ''] =
      request.headers.authorization?.split(' ') ?? []
    const node = nodes.get(nodeId)
    if (scheme !== 'SvcNode' || node === undefined) return 'node_unknown'
    const bodySha256 = createHash('sha256').update(body).digest('hex')
    if (request.headers['svc-content-sha256'] !== bodySha256) return 'wrong_digest'
    const path = (request.url as string).slice(base.length)
    const known = node.sessions.get(session)
    if (session !== '-' && known === undefined) return 'session_unknown'
    const given = session === '-' ? counter : Number(counter)
    const text = requestText({ nodeId, session, counter: given, method: request.method as string, path, bodySha256 })
    const x = node.key.toString('base64url')
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    if (!verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'))) return 'wrong_signature'
    if (known?.has(Number(counter))) return 'request_repeated'
    known?.add(Number(counter))
    return { nodeId, session, counter }
  }

  async function handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const url = request.url as string
    seen.push(`${request.method} ${url}`)
    if (hub.intercept?.(request, response)) return
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const { pathname: path, searchParams } = new URL(url.slice(base.length), 'http://hub')
    if (!url.startsWith(`${base}/`)) return refuse(response, 404, 'not_found')
    if (path === '/api/agent/enroll') return enroll(response, JSON.parse(body.toString()))
    const caller = callerOf(request, body)
    if (typeof caller === 'string') return refuse(response, 401, caller)
    const { nodeId } = caller
    if (path === '/api/agent/session') {
      const name = randomBytes(12).toString('base64url')
      nodes.get(nodeId)?.sessions.set(name, new Set())
      const signature = signed(sessionText({ ...caller, session: name }))
      const begun = { success: true, session: name, keys: followers, signature }
      hub.recorded.sessions.push(JSON.stringify(begun))
      return answer(response, begun)
    }
    if (path === '/api/agent/desired') return open(response, caller)
    if (path === '/api/agent/reports') {
      const report = JSON.parse(body.toString()) as AgentReport
      reports.push(report)
      answer(response, { success: true })
      return void events.emit('report')
    }
    const [, kind, id = ''] = /^\/api\/agent\/(releases|blobs|relays)\/([^/]+)(?:\/ranges)?$/.exec(path) ?? []
    if (kind === 'relays') {
      parts.push({ id, part: Number(searchParams.get('part')), last: searchParams.get('last') === '1', body })
      answer(response, { success: true })
      return void events.emit('part')
    }
    const release = [...releases.values()].find(each => each.deployId === id || each.archiveSha256 === id)
    if (release === undefined) return refuse(response, 404, 'not_found')
    const { archive, ...document } = release
    if (kind === 'blobs' && request.method === 'POST') return ranges(response, archive, body)
    if (kind === 'blobs') return blob(request, response, archive)
    const json = JSON.stringify(document)
    response.writeHead(200, {
      'content-type': 'application/json',
      'svc-signature': signed(releaseText(caller, json))
    })
    response.end(json)
  }

  function enroll(response: http.ServerResponse, { token, publicKey: key, name }: Record<string, string>): void {
    if (!tokens.delete((token as string).split('_')[1] as string)) return refuse(response, 403, 'enrollment_invalid')
    lastNode = `node_${nodes.size + 1}`
    nodes.set(lastNode, { key: Buffer.from(key as string, 'base64'), sessions: new Map() })
    answer(response, { success: true, nodeId: lastNode, name, hubKey: publicKey().toString('base64') })
  }

  function open(response: http.ServerResponse, asked: Asked): void {
    response.writeHead(200, { 'content-type': 'application/x-ndjson', 'x-accel-buffering': 'no' })
    streams.set(response, { ...asked, count: 0, openedMs: performance.now() })
    send(response, { type: 'welcome', version: 'test', heartbeatMs: 15_000, hubs: [] })
    for (const line of orders.values()) send(response, line)
    const beat = setInterval(() => {
      if (hub.heartbeatMs !== null) send(response, { type: 'heartbeat' })
    }, hub.heartbeatMs ?? 1000)
    response.on('close', () => {
      clearInterval(beat)
      streams.delete(response)
    })
    events.emit('stream')
  }

  function blob(request: http.IncomingMessage, response: http.ServerResponse, archive: Buffer): void {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? -1)
    if (from < 0) return void response.writeHead(200, { 'content-length': archive.length }).end(archive)
    const range = `bytes ${from}-${archive.length - 1}/${archive.length}`
    response.writeHead(206, { 'content-length': archive.length - from, 'content-range': range })
    response.end(archive.subarray(from))
  }

  function ranges(response: http.ServerResponse, archive: Buffer, body: Buffer): void {
    const { ranges } = JSON.parse(body.toString()) as BlobRanges
    const parts: Buffer[] = []
    for (let at = 0; at < ranges.length; at += 2) {
      const [from, bytes] = ranges.slice(at, at + 2) as [number, number]
      parts.push(archive.subarray(from, from + bytes))
    }
    response.end(Buffer.concat(parts))
  }

  const toAll = (line: DesiredLine): void => {
    for (const response of streams.keys()) send(response, line)
  }

  async function until<T>(event: string, find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find()
      if (found !== undefined) return found
      await once(events, event)
    }
  }

  const onRequest: http.RequestListener = (request, response) => {
    handle(request, response).catch(error => {
      if (!request.destroyed) response.destroy(error as Error)
    })
  }
  const server = tls === undefined ? http.createServer(onRequest) : https.createServer(tls, onRequest)
  await once(server.listen(port, '127.0.0.1'), 'listening')
  const address = `${tls === undefined ? 'http://127.0.0.1' : 'https://localhost'}:${(server.address() as AddressInfo).port}`

  const hub: FakeHub = {
    url: `${address}${base}`,
    token() {
      const secret = randomBytes(9).toString('hex')
      tokens.add(secret)
      return `svcnode_${secret}_${publicKey().toString('base64url')}`
    },
    nodeId: () => lastNode,
    seen,
    reports,
    parts,
    streams: () => streams.size,
    async release(projectId, files, more = {}) {
      const archive = await zipOf(files)
      const deployId = `dep_hub${releases.size + 1}`
      const release: FakeRelease = {
        deployId,
        projectId,
        projectName: projectId,
        env: 'production',
        deployPath: `/srv/${projectId}`,
        treeSha256: 'unknown',
        archiveSha256: createHash('sha256').update(archive).digest('hex'),
        archiveBytes: archive.length,
        fileCount: Object.keys(files).length,
        policy: {},
        project: {},
        variables: [],
        offered: { origin: 'upload' },
        clientEnv: {},
        message: null,
        archive,
        ...more
      }
      releases.set(deployId, release)
      return release
    },
    order({ projectId, deployId, treeSha256, archiveSha256, archiveBytes }, action, { number = 1, ...more } = {}) {
      const about = { projectId, rolloutId: `ro_${number}`, number, attempt: ++attempts, action, deployId }
      const order = { epoch: hub.epoch, ...about, treeSha256, archiveSha256, archiveBytes }
      const line: OrderLine = { type: 'order', ...order, ...more }
      orders.set(projectId, line)
      toAll(line)
      return line
    },
    send: toAll,
    relay(request) {
      const id = `rel_${parts.length + 1}${randomBytes(3).toString('hex')}`
      toAll({ type: 'relay', id, request: JSON.stringify(request) })
      return id
    },
    input: (id, number, bytes) => toAll({ type: 'input', id, number, bytes }),
    write(text) {
      for (const response of streams.keys()) response.write(text)
    },
    sealed: line => sealedFor([...streams.values()].at(-1) as Asked & { count: number; openedMs: number }, line),
    answer: ({ projectId, rolloutId, attempt }, wanted) =>
      until('report', () => {
        const all = reports.flatMap(({ answers }) => answers)
        const found = all.filter(each => each.projectId === projectId && each.rolloutId === rolloutId)
        const other = found.find(each => each.attempt === attempt && each.answer !== 'begun' && each.answer !== wanted)
        if (other !== undefined) throw new Error(`The answer is "${other.answer}": ${other.error}`)
        return found.find(each => each.attempt === attempt && each.answer === wanted)
      }),
    reported: is => until('report', () => reports.find(is)),
    relayed: is => until('part', () => (is(parts) ? parts : undefined)),
    connected: async () => void (await until('stream', () => (streams.size > 0 ? true : undefined))),
    cut() {
      server.closeAllConnections()
    },
    forgetSessions() {
      for (const { sessions } of nodes.values()) sessions.clear()
    },
    rotate() {
      const next = generateKeyPairSync('ed25519')
      const hubKey = next.publicKey.export({ type: 'spki', format: 'der' }).subarray(12).toString('base64')
      const key = { hubKey, signature: signed(hubKeyText(hubKey)) }
      followers.push(key)
      earlier = keys
      keys = next
      return { type: 'key', ...key }
    },
    tellKey() {
      for (const response of streams.keys())
        send(response, { type: 'key', ...(followers.at(-1) as SignedHubKey) }, earlier)
    },
    epoch: 'epoch_1',
    recorded: { sessions: [] },
    intercept: null,
    heartbeatMs: 1000,
    async close() {
      server.closeAllConnections()
      if (server.listening) await new Promise(resolve => server.close(resolve))
    }
  }
  t.teardown(() => hub.close())
  return hub
}
