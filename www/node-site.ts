/*
 * The pages of a node, shown through this server: the same pages as those of the server, with a client that asks the
 * node. Their addresses are below `nodes/<id>/`, which is the base of the document meanwhile, so that their links lead to
 * other pages of the node.
 */
import { createNodeClient } from './server/node-client.js'
import type { ListedNode } from '../lib/model/node.js'
import type { NodeFrame } from './elements/base/svc-app.js'
import { SvcMark } from './elements/fleet/marks.js'
import { SvcNodeBanner } from './elements/fleet/svc-node-banner.js'
import { NodeAwayPage } from './pages/node-away.js'
import type { PageContext } from './pages/page.js'
import type { Place } from './router.js'
import { createMarks, createChanges } from './state/resource.js'

/** The pages of a node. */
export interface NodeSite {
  /** What its pages use in place of the context of the panel. */
  context: PageContext
  /** What the frame shows around them. */
  frame: NodeFrame
  /** The address below the base of the server under which its pages are. */
  base: string
  /** Whether the node does not exist, or is not connected. */
  isAway: boolean
  /** Asks for the node, and follows its state until `leave`. */
  look(): Promise<void>
  /** Takes note of the page that is shown. */
  arrive(place: Place): void
  leave(): void
}

const lookMs = 5000

/** Creates the pages of a node. `onTurn` is called when the node is connected again, or no longer. */
export function createNodeSite({
  context: hub,
  id,
  onTurn
}: {
  context: PageContext
  id: string
  onTurn: () => void
}): NodeSite {
  hub.define({ 'svc-node-banner': SvcNodeBanner, 'svc-page-node-away': NodeAwayPage, 'svc-mark': SvcMark })
  const base = `nodes/${encodeURIComponent(id)}/`
  const client = createNodeClient(hub.client, id)
  const banner = document.createElement('svc-node-banner') as SvcNodeBanner
  let node: ListedNode | null = null
  let timer: ReturnType<typeof setInterval> | undefined

  const isActive = (): boolean => !document.hidden && hub.session.id !== null && hub.connection.state === 'open'
  const changes = createChanges({ ask: () => client.call('GET /api/changes'), isActive, intervalMs: lookMs })

  async function ask(): Promise<void> {
    node = (await hub.client.call('GET /api/nodes/:node', { node: id })).node
    banner.node = node
    site.frame.crumbs = crumbsOf(node)
  }

  const crumbsOf = (named: ListedNode | null) => [
    { words: banner.roomWords, address: hub.client.address('nodes') },
    { words: named?.name ?? id, address: hub.client.address(base.slice(0, -1)) }
  ]

  const site: NodeSite = {
    base,
    frame: { banner, crumbs: crumbsOf(null) },
    context: {
      ...hub,
      client,
      changes,
      marks: createMarks({ ask: () => client.call('GET /api/marks'), changes }),
      go: (path, options) => hub.go(`${base}${path}`, options),
      readings: []
    },
    get isAway() {
      return node?.isConnected !== true
    },
    async look() {
      await ask().catch(() => {
        // The page says that there is no such node, or the frame that the server does not answer.
        node = null
        banner.node = null
      })
      timer ??= setInterval(() => {
        if (!isActive()) return
        const wasAway = site.isAway
        ask().then(
          () => {
            if (wasAway !== site.isAway) onTurn()
          },
          () => {}
        )
      }, lookMs)
    },
    arrive({ row }) {
      banner.here = row.path.split('/')[2] ?? ''
    },
    leave() {
      clearInterval(timer)
      timer = undefined
    }
  }
  return site
}
