/* Reads the lines of the stream from the hub (DesiredLine of model/fleet-wire.ts), and checks their signatures. */
import type { KeyObject } from 'node:crypto'
import { Refusal } from '../../base/refusal.js'
import { hubKeyText, inputText, orderText, relayText, type DesiredLine } from '../../model/fleet-wire.js'
import { orderActions } from '../../model/rollout.js'
import { isSignedBy } from './signatures.js'

/** What the signatures of a stream cover besides the lines. */
export interface StreamFacts {
  nodeId: string
  session: string
  hubKey: KeyObject
}

const fieldsOf: Record<DesiredLine['type'], Record<string, 'string' | 'number' | 'list'>> = {
  welcome: { version: 'string', heartbeatMs: 'number', hubs: 'list' },
  order: {
    projectId: 'string',
    rolloutId: 'string',
    number: 'number',
    attempt: 'number',
    action: 'string',
    deployId: 'string',
    treeSha256: 'string',
    archiveSha256: 'string',
    archiveBytes: 'number',
    signature: 'string'
  },
  unplaced: { projectId: 'string' },
  key: { hubKey: 'string', signature: 'string' },
  relay: { id: 'string', request: 'string', signature: 'string' },
  input: { id: 'string', number: 'number', bytes: 'string', signature: 'string' },
  heartbeat: {}
}

/**
 * Returns the line that a text contains; null: a kind that this version does not know. Refuses (`unavailable`) bad_line
 * for a text that is not a line.
 */
export function parseLine(text: string): DesiredLine | null {
  const value = parse(text)
  const fields = Object.hasOwn(fieldsOf, String(value['type'])) ? fieldsOf[value['type'] as DesiredLine['type']] : null
  if (fields === null) return null
  for (const [name, type] of Object.entries(fields)) {
    const given = value[name]
    const isRight = type === 'list' ? Array.isArray(given) : typeof given === type
    if (!isRight) throw badLine(`"${name}" is missing or of another type`)
  }
  if (value['type'] === 'order' && !orderActions.includes(value['action'] as never)) return null
  return value as DesiredLine
}

/** Returns whether the key of the hub has signed a line. Lines without effect on the node have no signature. */
export function isGenuine(line: DesiredLine, { nodeId, session, hubKey }: StreamFacts): boolean {
  switch (line.type) {
    case 'order':
      return isSignedBy(hubKey, orderText(nodeId, line), line.signature)
    case 'key':
      return isSignedBy(hubKey, hubKeyText(line.hubKey), line.signature)
    case 'relay':
      return isSignedBy(hubKey, relayText(nodeId, session, line), line.signature)
    case 'input':
      return isSignedBy(hubKey, inputText(nodeId, session, line), line.signature)
    default:
      return true
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // Refused below.
  }
  throw badLine('it is not a JSON object')
}

function badLine(why: string): Refusal {
  return new Refusal('unavailable', 'bad_line', `Cannot read a line of the hub: ${why}`)
}
