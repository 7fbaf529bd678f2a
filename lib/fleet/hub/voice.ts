/*
 * What the hub says to a node: each line of a stream gets its number, and a seal over its exact text and the request that
 * opened the stream. An agent ends a stream with any other line.
 */
import { elapsedOf, type Clock } from '../../base/clock.js'
import { Refusal } from '../../base/errors.js'
import { fleetProtocol, lineText, type Asked, type DesiredLine } from '../../model/fleet-wire.js'
import type { HubKey, HubSigner } from './hub-key.js'
import { lineOfProtocol1 } from './protocol-1.js'

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
