import { countOf, oneLine } from '../../base/text.js'
import type { ListedNode } from '../../model/node.js'
import type { Finding } from './finding.js'

const check = 'Fleet'
const maxNamesShown = 10

/** Returns the findings about nodes: those that are not connected, and those whose files are not as rolled out. Pure. */
export function fleetFindings(nodes: readonly ListedNode[]): Finding[] {
  if (nodes.length === 0) return []
  const lost = nodes.filter(({ isConnected, isDrained }) => !isConnected && !isDrained)
  const drifted = nodes.filter(({ placements }) => placements.some(({ isDrifted }) => isDrifted))
  const outdated = nodes.filter(({ isOutdated }) => isOutdated)
  const shared = nodes.filter(({ sharedSince }) => sharedSince)
  const findings = [
    finding(
      shared,
      'two machines use the identity of one node, which gets no orders',
      'Stop one of them. To make it a node of its own, see "Two machines with one identity" in docs/fleet.md'
    ),
    finding(outdated, 'older agents, which do not notice recorded orders', 'Upgrade svc there, and restart the agent'),
    finding(lost, 'not connected', 'Start the agent there ("svc agent"), or drain or forget the node with "svc fleet"'),
    finding(drifted, 'not as rolled out', 'Look at it with "svc fleet node <name>"; the next push replaces the files')
  ].filter(each => each !== null)
  const connected = nodes.filter(({ isConnected }) => isConnected).length
  if (findings.length > 0) return findings
  return [{ check, result: 'pass', detail: `${connected} of ${countOf(nodes.length, 'node')} connected`, advice: null }]
}

function finding(nodes: readonly ListedNode[], what: string, advice: string): Finding | null {
  if (nodes.length === 0) return null
  const names = nodes.slice(0, maxNamesShown).map(({ name }) => oneLine(name))
  const more = nodes.length - names.length
  const shown = names.join(', ') + (more > 0 ? `, and ${more} more` : '')
  return { check, result: 'warning', detail: `${what}: ${shown}`, advice }
}
