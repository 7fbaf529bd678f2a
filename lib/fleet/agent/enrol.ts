/*
 * Makes a machine a node of a fleet, with a one-time token: `svcnode_<secret>_<public key of the hub, base64url>`. The
 * answer must name the key that the token names.
 */
import { Refusal, invalid } from '../../base/errors.js'
import type { Caller } from '../../http/outgoing/caller.js'
import type { EnrollAnswer, EnrollRequest } from '../../model/fleet-wire.js'
import { refusalOf } from './hub-client.js'
import type { AgentKey, Identity } from './identity.js'

/** What a machine says about itself. */
export interface EnrolOptions {
  token: string
  /** The addresses of the hubs. */
  hubs: string[]
  name: string
  labels: Record<string, string>
  version: string
  key: AgentKey
  createCaller(address: string): Caller
  signal: AbortSignal
}

const limitMs = 30_000
const maxAnswerBytes = 64 * 1024
const tokenPattern = /^svcnode_[\w-]+_([\w-]{43})$/

/** Returns the key of the hub that a token names, in base64. Refuses (`invalid`) a text that is no token. */
export function hubKeyOf(token: string): string {
  const key = tokenPattern.exec(token)?.[1]
  if (key !== undefined) return Buffer.from(key, 'base64url').toString('base64')
  throw invalid('enroll', 'The enrollment token is not complete: it must be like "svcnode_…_…". Copy it again')
}

/** Enrolls at the first hub that answers. Refuses what the hub refuses, and (`unavailable`) hub_unreachable. */
export async function enrol({ hubs, ...options }: EnrolOptions): Promise<Identity> {
  const hubKey = hubKeyOf(options.token)
  let failure: unknown
  for (const address of hubs) {
    try {
      const answer = await ask(address, options)
      if (answer.hubKey !== hubKey) throw otherHub(address)
      return { hubs, nodeId: answer.nodeId, name: answer.name, hubKey }
    } catch (error) {
      if (error instanceof Refusal && error.kind !== 'unavailable') throw error
      options.signal.throwIfAborted()
      failure = error
    }
  }
  throw failure
}

async function ask(
  address: string,
  { token, name, labels, version, key, createCaller, signal }: Omit<EnrolOptions, 'hubs'>
): Promise<EnrollAnswer> {
  const caller = createCaller(address)
  const request: EnrollRequest = { token, publicKey: key.publicKey, name, labels, version }
  const headers = { 'content-type': 'application/json' }
  const body = Buffer.from(JSON.stringify(request))
  try {
    const answer = await caller
      .send({ method: 'POST', path: '/api/agent/enroll', headers, body, limitMs, signal })
      .catch((error: unknown) => {
        signal.throwIfAborted()
        const why = error instanceof Error ? error.message : String(error)
        throw new Refusal('unavailable', 'hub_unreachable', `Cannot reach the hub ${address}: ${why}`, { cause: error })
      })
    if (answer.statusCode !== 200) throw await refusalOf(answer)
    let text = ''
    for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk
      if (text.length > maxAnswerBytes) throw noHub(address)
    }
    return readAnswer(text) ?? reject(noHub(address))
  } finally {
    caller.close()
  }
}

function readAnswer(text: string): EnrollAnswer | null {
  try {
    const value = JSON.parse(text) as EnrollAnswer
    const isWhole = [value.nodeId, value.name, value.hubKey].every(field => typeof field === 'string' && field !== '')
    return isWhole ? value : null
  } catch {
    return null
  }
}

function reject(refusal: Refusal): never {
  throw refusal
}

function noHub(address: string): Refusal {
  return new Refusal('unavailable', 'bad_answer', `${address} did not answer like a hub. Check the address`)
}

function otherHub(address: string): Refusal {
  const sentence = `${address} is not the hub that the enrollment token is for: it has another key. Check the address`
  return new Refusal('forbidden', 'wrong_hub', sentence)
}
