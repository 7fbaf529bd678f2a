/*
 * One-time tokens with which machines become nodes: `svcnode_<secret>_<public key of the hub>`. The secret is stored as a
 * hash only. From the token, the machine knows which hub to trust. A used token is kept until it expires, to give the same
 * machine the same answer again: the first one may have been lost.
 */
import { createHash } from 'node:crypto'
import { instantOf, type Clock } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { invalid, notFound, Refusal } from '../../base/errors.js'
import { systemActor, type Actor, type AuditEvent } from '../../model/audit.js'
import type { EnrollAnswer, EnrollRequest } from '../../model/fleet-wire.js'
import { fleetLimits, type Enrollment } from '../../model/node.js'
import type { Reader, Store, Transaction } from '../../store/database.js'
import {
  countEnrollments,
  countNodes,
  deleteEnrollment,
  findEnrollment,
  findEnrollmentByDigest,
  findNode,
  findNodeByName,
  insertEnrollment,
  insertNode,
  listEnrollments,
  removeExpiredEnrollments,
  type StoredEnrollment,
  useEnrollment
} from '../../store/tables/fleet.js'
import type { Enrollments } from './fleet.js'
import type { HubKey } from './hub-key.js'
import { refuseTaken } from './nodes.js'

/** Dependencies of the enrolments. */
export interface EnrollmentsNeeds {
  store: Store
  clock: Clock
  ids: Ids
  audit: { within(tx: Transaction, event: AuditEvent): void }
  key: HubKey
}

/** The enrolments of a hub, with what machines do with them. */
export interface HubEnrollments extends Enrollments {
  /**
   * Makes a machine a node. Audited. The same machine, known by its key, gets the same answer again. Refuses 403 `enrollment_invalid`, 409 `too_many_nodes`, 400 for a wrong key. A
   * proposed name that is taken gets a number.
   */
  enroll(request: EnrollRequest, from: Pick<Actor, 'ip' | 'claimedIp'>): Promise<EnrollAnswer>
}

const prefix = 'svcnode'
const publicKeyBytes = 32

/** Creates the enrolments. */
export function createEnrollments({ store, clock, ids, audit, key }: EnrollmentsNeeds): HubEnrollments {
  return {
    list: () => listEnrollments(store, instantOf(clock)).map(shown),

    async create({ name, labels, seconds }, actor) {
      const { publicKey } = await key.current()
      const secret = ids.token().replaceAll('_', '-')
      const token = [prefix, secret, Buffer.from(publicKey, 'base64').toString('base64url')].join('_')
      const createdAt = instantOf(clock)
      const enrollment: StoredEnrollment = {
        id: ids.id('enr_'),
        digest: digestOf(secret),
        name,
        labels,
        createdAt,
        createdBy: actor.name,
        expiresAt: new Date(Date.parse(createdAt) + seconds * 1000).toISOString(),
        nodeId: null
      }
      await store.write(tx => {
        removeExpiredEnrollments(tx, createdAt)
        if (countEnrollments(tx) >= fleetLimits.enrollments) throw tooMany()
        if (name !== null) refuseTaken(tx, name)
        insertEnrollment(tx, enrollment)
        audit.within(tx, { action: 'enrollment.create', actor, target: enrollment.id, detail: name })
      })
      return { enrollment: shown(enrollment), token }
    },

    revoke: (id, actor) =>
      store.write(tx => {
        const enrollment = findEnrollment(tx, id)
        if (enrollment === undefined || enrollment.nodeId !== null) throw notFound('Enrollment', id)
        deleteEnrollment(tx, id)
        audit.within(tx, { action: 'enrollment.revoke', actor, target: id, detail: enrollment.name })
      }),

    async enroll({ token, publicKey, name, labels, version }, { ip, claimedIp = null }) {
      const hubKey = (await key.current()).publicKey
      const secret = token.split('_')[1] ?? ''
      if (Buffer.from(publicKey, 'base64').length !== publicKeyBytes)
        throw invalid('publicKey', '"publicKey" is not valid: it is not an Ed25519 key of 32 bytes in base64')
      return store.write(tx => {
        const found = findEnrollmentByDigest(tx, digestOf(secret))
        if (found === undefined || found.expiresAt <= instantOf(clock)) throw unusable()
        if (found.nodeId !== null) return { ...enrolled(tx, found.nodeId, publicKey), hubKey }
        if (countNodes(tx) >= fleetLimits.nodes) throw fullFleet()
        const chosen = found.name ?? freeName(tx, name)
        refuseTaken(tx, chosen)
        const nodeId = ids.id('node_')
        const enrolledAt = instantOf(clock)
        insertNode(tx, {
          id: nodeId,
          name: chosen,
          labels: { ...labels, ...found.labels },
          publicKey,
          isDrained: false,
          enrolledAt,
          lastSeenAt: null,
          version,
          freeBytes: null,
          sharedSince: null
        })
        useEnrollment(tx, found.id, nodeId)
        const actor = { ...systemActor, name: `node:${chosen}`, ip, claimedIp }
        audit.within(tx, { action: 'node.enroll', actor, target: nodeId, detail: `${chosen}, with ${found.id}` })
        return { nodeId, name: chosen, hubKey }
      })
    }
  }
}

function shown({ digest: _, nodeId: __, ...enrollment }: StoredEnrollment): Enrollment {
  return enrollment
}

/** Returns the node that has used a token, if it has this key and was not forgotten. */
function enrolled(db: Reader, nodeId: string, publicKey: string): Pick<EnrollAnswer, 'nodeId' | 'name'> {
  const node = findNode(db, nodeId)
  if (node === undefined || node.publicKey !== publicKey) throw unusable()
  return { nodeId, name: node.name }
}

/** Returns the proposed name, with a number if it is taken. */
function freeName(db: Reader, name: string): string {
  for (let number = 1; ; number++) {
    const tried = number === 1 ? name : `${name}-${number}`
    if (findNodeByName(db, tried) === undefined) return tried
  }
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

function unusable(): Refusal {
  const sentence = 'The enrollment token is not valid: it was used, was revoked, or has expired. Create another one'
  return new Refusal('forbidden', 'enrollment_invalid', sentence)
}

function tooMany(): Refusal {
  const sentence = `Cannot create an enrollment: ${fleetLimits.enrollments} are open. Revoke some`
  return new Refusal('conflict', 'too_many_enrollments', sentence)
}

function fullFleet(): Refusal {
  const sentence = `Cannot enroll a node: the fleet has ${fleetLimits.nodes}. Forget some`
  return new Refusal('conflict', 'too_many_nodes', sentence)
}
