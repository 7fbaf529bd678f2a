/*
 * What agents of protocol 1 read: they check the signatures of orders, releases and relayed requests, not their place in the
 * stream, and believe the other lines. The hub serves them until they are upgraded.
 */
import type { Asked, DesiredLine } from '../../model/fleet-wire.js'

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
