import t from 'tap'
import { hubKeyText, lineText, releaseText, requestText, sessionText } from '../../lib/model/fleet-wire.js'
import { nodeSettings } from '../../lib/model/project.js'
import { projectFields } from '../../lib/model/project-fields.js'

const asked = { nodeId: 'n1', session: 's', counter: 7 }
const request = { ...asked, method: 'POST', path: '/api/agent/reports', bodySha256: 'cc' }

t.test('every signed text names its kind, its node and each of its fields', async t => {
  t.equal(requestText(request), 'svc-agent-request 1\nn1\ns\n7\nPOST\n/api/agent/reports\ncc\n')
  t.equal(sessionText({ ...asked, counter: 'nonce' }), 'svc-agent-session 2\nn1\nnonce\ns\n')
  t.equal(lineText(asked, 3, '{}'), 'svc-agent-line 2\nn1\ns\n7\n3\n{}\n')
  t.equal(releaseText(asked, '{}'), 'svc-agent-release 2\nn1\ns\n7\n{}\n')
  t.equal(hubKeyText('key'), 'svc-agent-hub-key 1\nkey\n')
})

t.test('a text for one node, session, request or place is not that of another', async t => {
  const others = [{ nodeId: 'n2' }, { session: 't' }, { counter: 8 }]
  for (const textOf of [
    (asked: typeof request) => requestText(asked),
    (asked: typeof request) => sessionText(asked),
    (asked: typeof request) => lineText(asked, 1, '{}'),
    (asked: typeof request) => releaseText(asked, '{}')
  ])
    t.equal(new Set([request, ...others.map(each => ({ ...request, ...each }))].map(textOf)).size, 4)
  t.not(lineText(asked, 1, '{}'), lineText(asked, 2, '{}'))
})

t.test('each setting of a project reaches its nodes, or is a matter of the hub', async t => {
  /** Fields of the release document of their own, and what only the hub shows or does. A new setting is judged here. */
  const ofDocument = ['name', 'deployPath', 'env', 'policy', 'allowClientScripts']
  const ofHub = ['categoryId', 'tagIds', 'pinned', 'maxDiskMb']
  t.same(Object.keys(projectFields).sort(), [...nodeSettings, ...ofDocument, ...ofHub].sort())
})
