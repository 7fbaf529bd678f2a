/*
 * The identity of an agent: `agent.json` says which node of which hub it is, and `keys/agent.ed25519` is its own key
 * (PKCS #8 in PEM). Both are readable by their owner only.
 */
import { readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import { openSigningKey, type SigningKey } from '../../base/digests.js'
import { isLoopback } from '../../http/core/headers.js'

/** Which node an agent is. */
export interface Identity {
  /** The addresses of hubs that the operator gave, the first one first. */
  hubs: string[]
  /** Those that the hub named later, if any. */
  named?: string[]
  nodeId: string
  name: string
  /** The public key of the hub: the 32 bytes in base64. */
  hubKey: string
  /**
   * Whether the operator allowed addresses without TLS that are not on this machine. Absent: an earlier version wrote it,
   * which used any address in `hubs`.
   */
  allowHttp?: boolean
}

export type AgentKey = SigningKey

const secretMode = 0o600

/** Returns all addresses of hubs that an agent may use. Of those that a hub named, the ones without TLS must be allowed. */
export function addressesOf({ hubs, named = [], ...given }: Identity): string[] {
  const { allowHttp = !hubs.every(isConfidential) } = given
  return [...new Set([...hubs, ...named.filter(address => allowHttp || isConfidential(address))])]
}

/** Returns whether what goes to an address cannot be read on the way: it has TLS, or is on this machine. */
export function isConfidential(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol === 'https:' || hostname === 'localhost' || isLoopback(hostname.replace(/^\[|\]$/g, ''))
}

/** Returns the path of the file that contains the identity of an agent. */
export function identityPath(home: string): string {
  return join(home, 'agent.json')
}

/** Returns the identity of the agent of a data directory; null: it has not been enrolled. Refuses `agent_identity`. */
export async function readIdentity(home: string): Promise<Identity | null> {
  const path = identityPath(home)
  try {
    const identity: unknown = JSON.parse(await readFile(path, 'utf8'))
    if (isIdentity(identity)) return identity
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw unusable(path, reasonOf(error), error)
  }
  throw unusable(path, 'it is not the identity of an agent')
}

export async function writeIdentity(home: string, identity: Identity): Promise<void> {
  await replaceFile(identityPath(home), `${JSON.stringify(identity, null, 2)}\n`, secretMode)
}

/** Returns the key of the agent of a data directory. The first call creates it. Refuses `agent_identity`. */
export function openAgentKey(home: string): Promise<AgentKey> {
  return openKeyAt(keyPath(home))
}

/**
 * Returns the key with which a forgotten node enrolls again: who has its earlier key cannot pass for the new node. It stays
 * until `replaceIdentity`, so that an enrolment whose answer was lost is repeated with the same key.
 */
export function openNextKey(home: string): Promise<AgentKey> {
  return openKeyAt(nextKeyPath(home))
}

/** Replaces the identity, and its key by the next one. */
export async function replaceIdentity(home: string, identity: Identity): Promise<void> {
  await writeIdentity(home, identity)
  await rename(nextKeyPath(home), keyPath(home))
}

const keyPath = (home: string): string => join(home, 'keys', 'agent.ed25519')
const nextKeyPath = (home: string): string => join(home, 'keys', 'agent.next.ed25519')

function openKeyAt(path: string): Promise<AgentKey> {
  return openSigningKey(path, (why, cause) => unusable(path, why, cause))
}

function isIdentity(value: unknown): value is Identity {
  const { hubs, named = [], nodeId, name, hubKey, allowHttp = false } = (value ?? {}) as Record<string, unknown>
  const isText = (text: unknown): boolean => typeof text === 'string' && text !== ''
  const isList = (list: unknown): list is unknown[] => Array.isArray(list) && list.every(isText)
  if (typeof allowHttp !== 'boolean') return false
  return isList(hubs) && hubs.length > 0 && isList(named) && [nodeId, name, hubKey].every(isText)
}

function unusable(path: string, why: string, cause?: unknown): Refusal {
  const sentence = `Cannot use "${path}": ${why}. Restore it from a backup, or move it away and enroll again`
  return new Refusal('unavailable', 'agent_identity', sentence, { cause })
}
