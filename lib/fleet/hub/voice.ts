/*
 * What the hub says to a node: each line of a stream gets its number, and a seal over its exact text and the request that
 * opened the stream. An agent ends a stream with any other line.
 */

import { findAttestation } from '../../core/store/tables/signing-keys.js'
import { type Clock, elapsedOf } from '../../base/clock.js'
import { notFound, Refusal } from '../../base/errors.js'
import {
  type Asked,
  createOffers,
  type DesiredLine,
  fleetProtocol,
  lineText,
  type Offers,
  type OfferSealing,
  type ReleaseDocument,
  releaseText,
  type ScriptOffer,
  type SessionAnswer,
  sessionText,
  type SignedHubKey
} from '../../model/fleet-wire.js'
import { type Project, nodeSettings } from '../../model/project.js'
import { pick } from '../../base/fields.js'
import type { Signer, ServerKey } from '../../core/audit/signed-note.js'
import type { Store } from '../../core/store/database.js'
import { readAuditTree } from '../../core/store/tables/audit.js'
import { findPlacement, listHubKeys } from '../../core/store/tables/fleet.js'
import { nodePolicy, type PolicyChanges } from '../../model/policy.js'
import type { OpenedVariable } from '../../model/variable.js'
import { findDeployment } from '../../core/store/tables/deployments.js'
import { findProject } from '../../core/store/tables/projects.js'
import { archiveForNode, rolloutOfDeployment } from '../../core/store/tables/rollouts.js'

/** A request of a node, and the protocol of its session. */
export interface NodeRequest extends Asked {
  protocol: number
  /** The start of the agent; absent: an agent of an earlier version. */
  instance?: string | undefined
}

/** Returns the text of lines, in their order. */
export type Voice = (lines: readonly DesiredLine[]) => Promise<string>

/** Creates the voice for a stream. It refuses (`unavailable`) a key that the node cannot know: the stream must end. */
export function createVoice({ key, clock }: { key: HubKey; clock: Clock }, asked: NodeRequest): Voice {
  return asked.protocol < fleetProtocol ? createVoice1(key, asked) : createSealed(key, clock, asked)
}

function createSealed(key: HubKey, clock: Clock, asked: NodeRequest): Voice {
  let signer: HubSigner | null = null
  let count = 0
  const startMs = elapsedOf(clock)

  function sealed(line: DesiredLine, { sign }: HubSigner): string {
    const ms = Math.round(elapsedOf(clock) - startMs)
    const json = JSON.stringify({ ...line, line: ++count, ms })
    return `${json.slice(0, -1)},"seal":"${sign(lineText(asked, count, json))}"}\n`
  }

  return async lines => {
    const before = signer
    const now = (signer = await key.current())
    const news = before === null || before.publicKey === now.publicKey ? [] : key.after(before.publicKey)
    // The keys between are not here any more: a new session names them all.
    if (news.length > 1) throw new Refusal('unavailable', 'server_key', 'The key of the hub was replaced twice')
    const told = news.map(each => sealed({ type: 'key', ...each }, before as HubSigner))
    return [...told, ...lines.map(line => sealed(line, now))].join('')
  }
}

function createVoice1(key: HubKey, asked: Asked): Voice {
  let known: string | null = null
  return async lines => {
    const { publicKey, sign } = await key.current()
    const keys = known === publicKey ? [] : key.all()
    known = publicKey
    const all: DesiredLine[] = [...keys.map(each => ({ type: 'key' as const, ...each })), ...lines]
    return all.map(line => `${JSON.stringify(lineOfProtocol1(line, asked, sign))}\n`).join('')
  }
}

/* The key with which the hub signs for its nodes: the key of the server. */

/** Signs for nodes. */
export type HubSigner = Pick<Signer, 'publicKey' | 'sign'>

export type HubKey = ReturnType<typeof createHubKey>

/** Creates the access to the key of the hub. */
export function createHubKey({ store, key }: { store: Store; key: Pick<ServerKey, 'signers'> }) {
  /** Returns the keys after the first one, from which a node learns the current one. */
  function all(): SignedHubKey[] {
    return listHubKeys(store).map(({ publicKey, signature }) => ({ hubKey: publicKey, signature }))
  }

  /** Returns the current key. Refuses `server_key`. */
  async function current(): Promise<HubSigner> {
    const { signers } = await key.signers(readAuditTree(store).origin)
    return signers[0] as Signer
  }

  return {
    all,
    current,
    /** Returns the keys after another one. */
    after(publicKey: string): SignedHubKey[] {
      const keys = all()
      return keys.slice(keys.findIndex(({ hubKey }) => hubKey === publicKey) + 1)
    },
    /** Returns what a node gets that begins a session. */
    async greet(asked: Asked): Promise<SessionAnswer> {
      const { sign } = await current()
      return { session: asked.session, keys: all(), signature: sign(sessionText(asked)) }
    }
  }
}

/*
 * What agents of protocol 1 read: they check the signatures of orders, releases and relayed requests, not their place in the
 * stream, and believe the other lines. The hub serves them until they are upgraded.
 */

type Sign = (text: string) => string

/** Returns a line as these agents read it. */
export function lineOfProtocol1(line: DesiredLine, { nodeId, session }: Asked, sign: Sign): DesiredLine {
  const words = wordsOf(line, session)
  if (words === null) return line
  return { ...line, signature: sign([`svc-agent-${line.type} 1`, nodeId, ...words, ''].join('\n')) } as DesiredLine
}

/** Returns what the signature of a line covers; null if it is not signed. */
function wordsOf(line: DesiredLine, session: string): Array<string | number> | null {
  if (line.type === 'relay') return [session, line.id, line.request]
  if (line.type === 'input') return [session, line.id, line.number, line.bytes]
  if (line.type !== 'order') return null
  const { projectId, rolloutId, number, attempt, action, deployId, treeSha256, archiveSha256, archiveBytes } = line
  return [projectId, rolloutId, number, attempt, action, deployId, treeSha256, archiveSha256, archiveBytes]
}

/** Returns what the hub signs for a release document. */
export function releaseTextOfProtocol1({ nodeId, session }: Asked, json: string): string {
  return `svc-agent-release 1\n${nodeId}\n${session}\n${json}\n`
}

/*
 * What a node needs before it prepares: the document of a release, signed, and its archive. A node gets only the releases
 * of projects that are placed on it.
 */

/** Releases, as nodes get them. */
export interface Releases {
  /** Returns the document of a release for a node, and the signature. Refuses 404, 503 `variables_key`. */
  document(asked: NodeRequest, deployId: string): Promise<{ json: string; signature: string }>
  /** Returns the deployment whose archive has this SHA-256. Refuses 404. */
  archiveOf(nodeId: string, sha256: string): string
  /** Returns what the client of an earlier rollout has sent, for a rollback; null: nothing. */
  offerOf(deployId: string): Promise<ScriptOffer | null>
  /** Encrypts what a client has sent; null if it sent nothing. */
  sealOffer: Offers['seal']
}

export interface ReleasesNeeds {
  store: Store
  key: HubKey
  sealing: OfferSealing
  variables: { open(projectId: string): Promise<readonly OpenedVariable[]> }
  /** Nodes need the header values of checks as they are. Refuses 503 `variables_key`. */
  headers: { open(projectId: string, policy: PolicyChanges): Promise<PolicyChanges> }
  /** Returns what a project takes from the settings of the hub where it has no value of its own. */
  fromSettings(project: Project): Pick<Project, 'allowClientScripts' | 'scriptTimeoutSeconds'>
}

function attestedOf(store: Store, deployId: string): Pick<ReleaseDocument, 'attested'> {
  const { statement, signatures } = findAttestation(store, deployId) ?? {}
  return statement === undefined || signatures === undefined ? {} : { attested: { statement, signatures } }
}

export function createReleases(needs: ReleasesNeeds): Releases {
  const { store, key, variables } = needs
  const offers = createOffers(needs.sealing)

  return {
    async document(asked, deployId) {
      const { nodeId } = asked
      const rollout = rolloutOfDeployment(store, deployId)
      const row = findDeployment(store, deployId)
      const project = rollout === undefined ? undefined : findProject(store, rollout.projectId)
      const placement = rollout === undefined ? undefined : findPlacement(store, rollout.projectId, nodeId)
      if (rollout === undefined || project === undefined || placement === undefined) throw notFound('Release', deployId)
      const { treeSha256, archiveSha256, archiveBytes } = rollout
      const document: ReleaseDocument = {
        deployId,
        projectId: project.id,
        projectName: project.name,
        env: project.env,
        deployPath: placement.deployPath,
        treeSha256,
        archiveSha256,
        archiveBytes,
        fileCount: row?.fileCount ?? null,
        policy: nodePolicy(await needs.headers.open(project.id, project.policy)),
        // Nodes must not decide by their settings what the hub has told the user.
        project: { ...pick(project, nodeSettings), ...needs.fromSettings(project) },
        variables: (await variables.open(project.id)).map(({ name, value, secret }) => ({ name, value, secret })),
        ...(await offers.open(deployId, rollout.sealed)),
        message: row?.message ?? null,
        ...attestedOf(store, deployId)
      }
      const json = JSON.stringify(document)
      const textOf = asked.protocol < fleetProtocol ? releaseTextOfProtocol1 : releaseText
      return { json, signature: (await key.current()).sign(textOf(asked, json)) }
    },

    archiveOf(nodeId, sha256) {
      const deployId = archiveForNode(store, nodeId, sha256)
      if (deployId === undefined) throw notFound('Archive', sha256)
      return deployId
    },

    async offerOf(deployId) {
      const rollout = rolloutOfDeployment(store, deployId)
      if (rollout === undefined || rollout.sealed === null) return null
      const { offered, clientEnv } = await offers.open(deployId, rollout.sealed)
      return { offered: { ...offered, origin: 'source deployment' }, clientEnv }
    },

    sealOffer: offers.seal
  }
}
