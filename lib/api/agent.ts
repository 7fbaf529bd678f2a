/* The routes of the agents: what the nodes of a fleet ask their hub for. `model/fleet-wire.ts` describes the exchange. */
import {
  escapedLine,
  integer,
  line,
  list,
  nullable,
  object,
  oneOf,
  readFields,
  withDefault,
  flag,
  multiline
} from '../base/fields.js'
import { invalid } from '../base/errors.js'
import { fileReply, partsReply, type FilePart } from '../http/static/file.js'
import { fleetProtocol, maxBlobRanges, releaseSignatureHeader } from '../model/fleet-wire.js'
import { json, type BodyLimits } from '../http/core/route.js'
import { streamHeaders } from '../http/core/reply.js'
import type { HubAgents } from '../fleet/hub/hub.js'
import type { NodeRequest } from '../fleet/hub/voice.js'
import type { NodeRequests, SigningNode } from '../auth/node-requests.js'
import { fleetLimits } from '../model/node.js'
import { nodeLabels } from '../model/node-labels.js'
import { nodeAnswers } from '../model/rollout.js'
import { jsonOf, signedBytes, signedJson } from './signed-body.js'
import { queryText } from './query.js'
import { param, type ApiRequest, type Handler } from './route.js'

/** Dependencies of the handlers of agents. */
export interface AgentNeeds {
  agents(): Promise<HubAgents>
  nodes: Pick<NodeRequests, 'begin'>
  /** Returns the path of the archive of a deployment. In a cluster, another hub may have to send it first. */
  archivePath(deployId: string, signal: AbortSignal): Promise<string>
}

/** Limits of a request for parts of an archive. */
export const rangesLimits: BodyLimits = { maxBytes: 512 * 1024, totalMs: 60_000 }
/** Limits of a report. */
export const reportLimits: BodyLimits = { maxBytes: fleetLimits.reportBytes, totalMs: 60_000 }

/** Characters of the name of a start of an agent. */
const maxInstanceLength = 64

/** Handlers of what agents do. */
export function agentHandlers({ agents, nodes, archivePath }: AgentNeeds) {
  return {
    async enroll(request) {
      const { token, publicKey, name, labels, version } = readFields(await request.json(), enrollFields)
      const { ip, claimedIp } = request.actor
      const { enroll } = await agents()
      return json({ success: true, ...(await enroll({ token, publicKey, name, labels, version }, { ip, claimedIp })) })
    },

    async session(request) {
      const { id: nodeId, session, counter } = nodeOf(request)
      if (session !== '-') throw invalid('authorization', 'A session begins with a request that names the session "-"')
      const body = await signedBytes(request)
      const { protocol } = readFields(body.length === 0 ? {} : jsonOf(body), sessionFields)
      const { greet } = await agents()
      const begun = nodes.begin(nodeId, Math.min(protocol, fleetProtocol))
      return json({ success: true, ...(await greet({ nodeId, session: begun, counter })) })
    },

    async desired(request) {
      const { desired } = await agents()
      const instance = queryText(request.query, 'instance')?.slice(0, maxInstanceLength)
      return {
        kind: 'stream',
        status: 200,
        headers: { ...streamHeaders, 'content-type': 'application/x-ndjson' },
        lasting: true,
        run: sink => desired({ ...askedBy(request), instance }, sink)
      }
    },

    async release(request) {
      const { document } = await agents()
      const { json, signature } = await document(askedBy(request), param(request, 'deployId'))
      const type = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
      return {
        kind: 'bytes',
        status: 200,
        body: Buffer.from(json),
        headers: { ...type, [releaseSignatureHeader]: signature }
      }
    },

    async blob(request) {
      const { archiveOf, limited } = await agents()
      const deployId = archiveOf(nodeOf(request).id, param(request, 'sha256'))
      const file = await archivePath(deployId, request.signal)
      return limited(fileReply({ file, headers: { 'content-type': 'application/zip' } }))
    },

    async blobRanges(request) {
      const { archiveOf, limited } = await agents()
      const deployId = archiveOf(nodeOf(request).id, param(request, 'sha256'))
      const { ranges } = readFields(await signedJson(request), rangesFields)
      const parts = partsOf(ranges)
      const file = await archivePath(deployId, request.signal)
      return limited(partsReply(file, { parts, headers: { 'content-type': 'application/octet-stream' } }))
    },

    async report(request) {
      const { id } = nodeOf(request)
      const report = readFields(await signedJson(request), reportFields)
      await (await agents()).report(id, report)
      return json({ success: true })
    }
  } satisfies Record<string, Handler>
}

/** Returns the node that signed a request. */
export function nodeOf({ actor }: ApiRequest): SigningNode {
  if (actor.node === undefined) throw new Error('Only a node may call this route')
  return actor.node
}

function askedBy(request: ApiRequest): NodeRequest {
  const { id: nodeId, session, counter, protocol } = nodeOf(request)
  return { nodeId, session, counter, protocol }
}

/** Returns the parts that pairs of offset and length name. Refuses (`invalid`) those that are not in ascending order. */
function partsOf(ranges: readonly number[]): FilePart[] {
  const parts: FilePart[] = []
  for (let index = 0; index < ranges.length; index += 2) {
    const [at, bytes = 0] = ranges.slice(index, index + 2) as [number, number?]
    const { at: last, bytes: lastBytes } = parts.at(-1) ?? { at: 0, bytes: 0 }
    if (bytes === 0 || at < last + lastBytes) {
      throw invalid('ranges', 'Send an offset and a length for each part, in ascending order, and no part twice')
    }
    parts.push({ at, bytes })
  }
  return parts
}

const id = line({ min: 1, max: 100 })
const tree = nullable(line({ max: 64 }))

/** Fields of `POST /api/agent/enroll`. */
export const enrollFields = {
  /** The enrollment token, `svcnode_…`. */
  token: line({ min: 1, max: 300 }),
  /** The Ed25519 key of the agent: 32 bytes in base64. */
  publicKey: line({ min: 44, max: 44 }),
  /** The name that the machine proposes. An enrollment with a name ignores it. */
  name: line({ min: 1, max: fleetLimits.nameLength }),
  /** Labels of the node. Those of the enrollment take precedence. */
  labels: nodeLabels,
  /** The version of svc on the machine. */
  version: line({ min: 1, max: 100 })
}

/** Fields of `POST /api/agent/session`. */
export const sessionFields = {
  /** The protocol of the agent: 2. */
  protocol: withDefault(integer(1, 1000), 1)
}

/** Fields of `POST /api/agent/blobs/:sha256/ranges`. */
export const rangesFields = {
  /** Offset and length of each part, in ascending order. */
  ranges: list(integer(0, Number.MAX_SAFE_INTEGER), { max: 2 * maxBlobRanges })
}

/** Fields of `POST /api/agent/reports`. */
export const reportFields = {
  /** The version of svc on the machine. */
  version: line({ min: 1, max: 100 }),
  /** Free bytes where the agent keeps its data. */
  freeBytes: nullable(integer(0, Number.MAX_SAFE_INTEGER)),
  /** Answers to orders. */
  answers: list(
    object({
      projectId: id,
      rolloutId: id,
      attempt: integer(0, Number.MAX_SAFE_INTEGER),
      answer: oneOf(nodeAnswers),
      error: nullable(escapedLine({ max: fleetLimits.outputBytes })),
      failedStep: nullable(line({ max: 100 })),
      output: nullable(multiline({ max: fleetLimits.outputBytes })),
      tookMs: nullable(integer(0, Number.MAX_SAFE_INTEGER))
    }),
    { max: 1000 }
  ),
  /** What is in place of each project that is placed on the node. */
  placements: list(object({ projectId: id, liveDeployId: nullable(id), liveTree: tree, isDrifted: flag }), {
    max: 1000
  })
}
