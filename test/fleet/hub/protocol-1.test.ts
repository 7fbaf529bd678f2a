import t from 'tap'
import { lineOfProtocol1, releaseTextOfProtocol1 } from '../../../lib/fleet/hub/protocol-1.js'
import type { DesiredLine } from '../../../lib/model/fleet-wire.js'

const asked = { nodeId: 'n1', session: 's', counter: 1 }

t.test('orders and relayed requests are signed as agents of protocol 1 check them', async t => {
  const order = { projectId: 'p', rolloutId: 'ro', number: 4, attempt: 2, action: 'swap', deployId: 'd' } as const
  const archive = { treeSha256: 'aa', archiveSha256: 'bb', archiveBytes: 10 }
  for (const [line, signature] of [
    [{ type: 'order', epoch: 'e', ...order, ...archive }, 'svc-agent-order 1\nn1\np\nro\n4\n2\nswap\nd\naa\nbb\n10\n'],
    [{ type: 'relay', id: 'r', request: '{}' }, 'svc-agent-relay 1\nn1\ns\nr\n{}\n'],
    [{ type: 'input', id: 'r', number: 3, bytes: 'bHM=' }, 'svc-agent-input 1\nn1\ns\nr\n3\nbHM=\n']
  ] as Array<[DesiredLine, string]>)
    t.same(
      lineOfProtocol1(line, asked, text => text),
      { ...line, signature }
    )
  t.same(
    lineOfProtocol1({ type: 'unplaced', projectId: 'p' }, asked, text => text),
    { type: 'unplaced', projectId: 'p' }
  )
  t.equal(releaseTextOfProtocol1(asked, '{}'), 'svc-agent-release 1\nn1\ns\n{}\n')
})
