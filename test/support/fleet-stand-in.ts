import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { Enrollment, ListedNode, ListedPlacement } from '../../lib/model/node.js'
import {
  type ListedRollout,
  type ListedRolloutNode,
  type NodePhase,
  type RolloutDetail,
  type RolloutEvent,
  defaultRolloutPolicy
} from '../../lib/model/rollout.js'
import { adminToken } from './server.js'
import { urlOf } from './on-loopback.js'

/*
 * A stand-in for the routes of a fleet, in front of a real server: for ten thousand nodes, and a rollout of them in the
 * middle of a wave, which real agents cannot give cheaply. Everything else is tested with a real hub (real-nodes.ts). It
 * answers with records that a test sets, and passes everything else on.
 */

/** What the stand-in answers. A test changes it. */
export interface FleetRecords {
  nodes: ListedNode[]
  enrollments: Enrollment[]
  rollouts: RolloutDetail[]
  /** The changes that were asked for: `POST /api/rollouts/ro_1/halt {}`. */
  asked: string[]
}

export interface FleetStandIn {
  url: string
  records: FleetRecords
  /** Sends an event to those who follow a rollout, and takes note of it. */
  tell(rolloutId: string, event: RolloutEvent): void
  /** Ends all streams without a last event, as a lost connection does. */
  cut(): void
}

const nobody = {
  enrolledAt: '2026-11-01T10:00:00.000Z',
  version: '1.0.0',
  freeBytes: 21_474_836_480,
  sharedSince: null
}

/** Returns a node. */
export function nodeOf(number: number, given: Partial<ListedNode> = {}): ListedNode {
  const name = `plant-a${number}`
  return {
    ...nobody,
    id: `node_${number}`,
    name,
    labels: { zone: number % 2 === 0 ? 'eu' : 'us' },
    publicKey: 'wkq0bDZ1sYkTPHwbq0VbnWpQ0EdsIFZ+ql2Sz4nXxNc=',
    isDrained: false,
    lastSeenAt: new Date().toISOString(),
    isConnected: true,
    placements: [],
    ...given
  }
}

/** Returns a placement of a project on a node. */
export function placementOf(
  node: Pick<ListedNode, 'id' | 'name'>,
  project: { id: string; name: string },
  given: Partial<ListedPlacement> = {}
): ListedPlacement {
  return {
    projectId: project.id,
    projectName: project.name,
    nodeId: node.id,
    nodeName: node.name,
    deployPath: '/srv/www/shop',
    liveDeployId: null,
    liveTree: null,
    seenAt: new Date().toISOString(),
    isDrifted: false,
    ...given
  }
}

/** Returns a rollout of nodes, whose phases are given by wave. */
export function rolloutOf(
  project: { id: string; name: string },
  waves: NodePhase[][],
  given: Partial<RolloutDetail> = {}
): RolloutDetail {
  let number = 0
  const nodes = waves.flatMap((phases, at) =>
    phases.map((phase): ListedRolloutNode => {
      number++
      return {
        nodeId: `node_${number}`,
        nodeName: `plant-a${number}`,
        isConnected: phase !== 'unreachable',
        wave: at + 1,
        phase,
        attempt: 1,
        swapAttempt: 1,
        hasBegun: phase === 'good',
        error: phase === 'failed' ? 'check http://127.0.0.1:3000/up answered 502' : null,
        failedStep: phase === 'failed' ? 'check' : null,
        output: null,
        tookMs: phase === 'good' ? 2100 : null,
        updatedAt: new Date().toISOString()
      }
    })
  )
  return counted({
    id: 'ro_1',
    projectId: project.id,
    projectName: project.name,
    number: 1,
    deployId: 'dep_1',
    treeSha256: '4f1a9c0d'.repeat(8),
    policy: defaultRolloutPolicy,
    state: 'swapping',
    wave: 1,
    lastAttempt: 1,
    waves: waves.length,
    pausedUntil: null,
    revertFrom: null,
    haltedReason: null,
    createdAt: new Date().toISOString(),
    endedAt: null,
    counts: {},
    nodeCount: nodes.length,
    nodes,
    ...given
  })
}

function counted(rollout: RolloutDetail): RolloutDetail {
  const counts: RolloutDetail['counts'] = {}
  for (const { phase } of rollout.nodes) counts[phase] = (counts[phase] ?? 0) + 1
  return { ...rollout, counts }
}

const listed = ({ nodes: _, ...rollout }: RolloutDetail): ListedRollout => rollout

/** Starts the stand-in. `node`: the address of the server whose pages are those of every connected node. */
export async function startFleetStandIn(
  t: { teardown(work: () => unknown): void },
  { hub, node }: { hub: string; node: string }
): Promise<FleetStandIn> {
  const records: FleetRecords = { nodes: [], enrollments: [], rollouts: [], asked: [] }
  const followers = new Map<ServerResponse, string>()
  const write = (response: ServerResponse, value: unknown): void => void response.write(`${JSON.stringify(value)}\n`)

  function change(rollout: RolloutDetail, event: RolloutEvent): void {
    if (event.type === 'node')
      Object.assign(
        rollout,
        counted({
          ...rollout,
          nodes: rollout.nodes.map(each => (each.nodeId === event.node.nodeId ? event.node : each))
        })
      )
    else Object.assign(rollout, event.rollout)
  }

  function tell(id: string, event: RolloutEvent): void {
    const rollout = records.rollouts.find(each => each.id === id)
    if (rollout !== undefined) change(rollout, event)
    for (const [response, followed] of followers) {
      if (followed !== id) continue
      write(response, event)
      if (event.type === 'node' && rollout !== undefined) write(response, { type: 'state', rollout: listed(rollout) })
      if (event.type === 'end') response.end()
    }
  }

  const server = createServer((request, response) => {
    void answer(request, response).catch(error => response.destroy(error))
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://host')
    const method = request.method ?? 'GET'
    const at = /^\/api\/nodes\/([^/]+)\/at(\/.*)$/.exec(pathname)
    if (at !== null) return pass(request, response, { to: node, path: `/api${(request.url ?? '').split('/at')[1]}` })
    if (!/^\/api\/(nodes|enrollments|rollouts|projects\/[^/]+\/placements)(\/|$)/.test(pathname)) {
      const isSession = pathname === '/api/auth/session' && method === 'GET'
      return pass(request, response, { to: hub, path: request.url ?? '', ...(isSession && { change: withFleet }) })
    }
    const text = (await request.toArray()).join('')
    if (method !== 'GET') records.asked.push(`${method} ${pathname} ${text}`)
    const body = text === '' ? {} : JSON.parse(text)
    const [status, json] = reply(method, pathname, { body, query: searchParams }) ?? [
      404,
      { error: 'Not found', code: 'not_found' }
    ]
    if (json === 'events') return follow(response, pathname.split('/')[3] as string)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ success: status < 400, ...(json as object) }))
  }

  const withFleet = (answer: object): object => ({
    ...answer,
    fleet: records.nodes.length + records.enrollments.length > 0
  })

  function follow(response: ServerResponse, id: string): void {
    const rollout = records.rollouts.find(each => each.id === id) as RolloutDetail
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    write(response, { type: 'rollout', rollout })
    if (['halted', 'reverted', 'done'].includes(rollout.state)) {
      write(response, { type: 'end', rollout: listed(rollout) })
      return void response.end()
    }
    followers.set(response, id)
    response.on('close', () => followers.delete(response))
  }

  function reply(
    method: string,
    path: string,
    { body, query }: { body: any; query: URLSearchParams }
  ): [number, unknown] | null {
    const [, , kind, id = '', last = '', further = ''] = path.split('/')
    const found = records.nodes.find(each => each.id === id || each.name === id)
    const rollout = records.rollouts.find(each => each.id === id)
    if (kind === 'nodes' && id === '') return [200, { nodes: records.nodes, releases: [] }]
    if (kind === 'nodes' && found !== undefined) {
      if (method === 'PATCH') Object.assign(found, body)
      if (method === 'PUT') found.isDrained = body.drained
      if (method === 'DELETE') records.nodes = records.nodes.filter(each => each !== found)
      return [200, { node: found }]
    }
    if (kind === 'enrollments') return enrollments(method, id, body)
    if (kind === 'projects') return placements(method, id, body)
    if (kind === 'rollouts' && id === '') {
      const wanted = query.get('projectId')
      return [
        200,
        { rollouts: records.rollouts.filter(each => wanted === null || each.projectId === wanted).map(listed) }
      ]
    }
    if (kind !== 'rollouts' || rollout === undefined) return null
    if (last === 'events') return [200, 'events']
    if (last === 'nodes') {
      const node = rollout.nodes.find(each => each.nodeId === further) as ListedRolloutNode
      return [200, { node: { ...node, output: 'Starting\nGET /up\n502 Bad Gateway\n' } }]
    }
    const states = { halt: 'halted', resume: 'swapping', revert: 'reverting', approve: 'swapping' } as const
    if (last in states) {
      const state = states[last as keyof typeof states]
      Object.assign(rollout, { state, haltedReason: last === 'halt' ? 'Halted by admin' : null })
      if (last === 'approve') rollout.wave++
      tell(
        id,
        last === 'halt' ? { type: 'end', rollout: listed(rollout) } : { type: 'state', rollout: listed(rollout) }
      )
    }
    return [200, { rollout: last === '' ? rollout : listed(rollout) }]
  }

  function enrollments(method: string, id: string, body: any): [number, unknown] {
    if (method === 'DELETE') records.enrollments = records.enrollments.filter(each => each.id !== id)
    if (method !== 'POST') return [200, { enrollments: records.enrollments }]
    const at = new Date()
    const enrollment: Enrollment = {
      id: `enr_${records.enrollments.length + 1}`,
      name: body.name,
      labels: body.labels,
      createdAt: at.toISOString(),
      createdBy: 'admin',
      expiresAt: new Date(at.getTime() + body.seconds * 1000).toISOString()
    }
    records.enrollments.push(enrollment)
    const token = `svcnode_${'x7Qk'.repeat(8)}_${'Zm9v'.repeat(10)}`
    return [
      200,
      { enrollment, token, command: `SVC_ENROLL_TOKEN=${token} svc agent --hub https://deploy.example/base` }
    ]
  }

  function placements(method: string, projectId: string, body: any): [number, unknown] {
    const all = (): ListedPlacement[] =>
      records.nodes.flatMap(({ placements }) => placements.filter(each => each.projectId === projectId))
    const project = { id: projectId, name: all()[0]?.projectName ?? 'shop' }
    if (method === 'PATCH') {
      for (const { node: id, deployPath = '/srv/www/shop' } of body.add ?? []) {
        const node = records.nodes.find(each => each.id === id || each.name === id) as ListedNode
        node.placements.push(placementOf(node, project, { deployPath, seenAt: null }))
      }
      for (const id of body.remove ?? []) {
        const node = records.nodes.find(each => each.id === id || each.name === id) as ListedNode
        node.placements = node.placements.filter(each => each.projectId !== projectId)
      }
    }
    return [200, { placements: all() }]
  }

  server.on('upgrade', (request, socket, head) => {
    const isOfNode = /^\/api\/nodes\/[^/]+\/terminal/.test(request.url ?? '')
    const { hostname, port } = new URL(isOfNode ? node : hub)
    const path = (request.url ?? '').replace(/^\/api\/nodes\/[^/]+\/terminal/, '/api/terminal/ws')
    const far = connect(Number(port), hostname, () => {
      const headers = isOfNode ? ofNode(request.headers) : request.headers
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`)
      far.write([`GET ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n'))
      far.write(head)
      far.pipe(socket)
      socket.pipe(far)
    })
    for (const each of [far, socket]) each.on('error', () => [far, socket].map(other => other.destroy()))
  })

  return {
    url: await urlOf(t, server),
    records,
    tell,
    cut: () => {
      for (const response of followers.keys()) response.destroy()
    }
  }
}

type Headers = IncomingMessage['headers']

/** The node takes the request as one of its own operator, as an agent does. */
function ofNode({ cookie: _, origin: __, ...headers }: Headers): Headers {
  return { ...headers, authorization: `Bearer ${adminToken}` }
}

/** Passes a request on to a real server. */
async function pass(
  request: IncomingMessage,
  response: ServerResponse,
  { to, path, change }: { to: string; path: string; change?: (answer: object) => object }
): Promise<void> {
  const headers = path !== request.url ? ofNode(request.headers) : request.headers
  const far = httpRequest(`${to}${path}`, {
    method: request.method ?? 'GET',
    headers: { ...headers, 'accept-encoding': change ? 'identity' : ((headers['accept-encoding'] as string) ?? '') }
  })
  request.pipe(far)
  response.on('close', () => far.destroy())
  const [answer] = (await once(far, 'response')) as [IncomingMessage]
  if (change === undefined || answer.statusCode !== 200) {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.on('error', () => response.destroy())
    return void answer.pipe(response)
  }
  const changed = JSON.stringify(change(JSON.parse((await answer.toArray()).join(''))))
  const { 'content-length': _, etag: __, ...kept } = answer.headers
  response.writeHead(200, kept)
  response.end(changed)
}
