import t from 'tap'
import {
  deploymentColumns,
  headline,
  messageWords,
  originWords,
  paintStatus,
  shownMessage,
  starterWords,
  statusWords
} from '../../../lib/cli/terminal/deployments.js'
import type { Paint } from '../../../lib/cli/terminal/output.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'
import type { Provenance } from '../../../lib/model/provenance.js'

const paint = new Proxy({}, { get: (_, color) => (text: string) => `${String(color)}(${text})` }) as unknown as Paint
const row = (of: Partial<ListedDeployment>): ListedDeployment =>
  ({ id: 'dep_a', status: 'success', message: null, triggerSource: 'cli', ...of }) as ListedDeployment

t.test('each state has its colour', async t => {
  const painted = (['success', 'failed', 'idle', 'queued', 'running'] as const).map(state => paintStatus(paint, state))
  t.same(painted, ['green(success)', 'red(failed)', 'dim(idle)', 'yellow(queued)', 'yellow(running)'])
})

t.test('a script that failed in the background is shown in place of the state, in red', async t => {
  const failed = row({ backgroundFailed: true })
  t.equal(statusWords(failed), 'failed in the background')
  t.equal(statusWords(row({})), 'success')
  const status = deploymentColumns(paint, 0).find(({ header }) => header === 'STATUS')
  t.equal(status?.paint?.('text', failed), 'red(text)')
})

t.test('what waits for somebody is not said to be running', async t => {
  const steps = [{ name: 'confirm', status: 'running', startedAt: '2030-01-01T00:00:00Z' }] as ListedDeployment['steps']
  t.equal(statusWords(row({ status: 'running', heldFor: null, holdUntil: null, steps })), 'waiting')
  t.equal(statusWords(row({ status: 'queued', heldFor: 'approval', holdUntil: null, steps: [] })), 'waiting')
  t.equal(statusWords(row({ status: 'running', heldFor: null, holdUntil: null, steps: [] })), 'running')
  t.equal(statusWords(row({ status: 'running' })), 'running', 'an older server sends no steps')
})

t.test('a message is shown without control characters, and cut', async t => {
  const shown = shownMessage(row({ message: `\u001b[31m${'long '.repeat(40)}` }))
  t.notMatch(shown, /\u001b/)
  t.ok(shown.length <= 60, shown)
})

const claim: Provenance = {
  source: 'cli',
  commit: '0123456789abcdef0123456789abcdef01234567',
  branch: 'main',
  tag: null,
  author: 'Ada',
  subject: 'Lower the prices',
  dirty: false,
  repository: null,
  ci: null,
  by: null
}
const withOrigin = {
  projectName: 'shop',
  env: 'production',
  message: null,
  rollbackOf: null,
  triggerSource: 'cli',
  provenance: claim
} as ListedDeployment
const ci = { system: 'Drone', run: '42', url: null, actor: 'ada' }

t.test('describes the origin of a deployment', async t => {
  t.equal(originWords(null), '')
  const { provenance: _, ...older } = withOrigin
  t.equal(originWords((older as ListedDeployment).provenance), '', 'an older server leaves it out')
  t.equal(headline(older as ListedDeployment), 'shop (production): cli')
  t.equal(originWords(claim), '0123456 main')
  t.equal(originWords({ ...claim, dirty: true, tag: 'v1' }), '0123456* v1')
  t.equal(originWords({ ...claim, commit: null }), 'main')
  const starters: Array<[Partial<ListedDeployment>, string]> = [
    [{ provenance: null }, 'cli'],
    [{}, 'cli (Ada)'],
    [{ provenance: { ...claim, author: null } }, 'cli'],
    [{ provenance: { ...claim, ci } }, 'Drone 42 (ada)'],
    [{ provenance: { ...claim, ci: { ...ci, run: null, actor: null } } }, 'Drone'],
    [{ provenance: { ...claim, source: 'panel', by: 'admin' } }, 'panel (admin)'],
    [{ provenance: { ...claim, source: 'panel' } }, 'panel'],
    [{ rollbackOf: 'dep_b', triggerSource: 'rollback' }, 'rollback of dep_b']
  ]
  for (const [change, words] of starters) t.equal(starterWords({ ...withOrigin, ...change }), words)
  t.equal(messageWords(withOrigin), 'Lower the prices')
  t.equal(messageWords({ ...withOrigin, message: 'Mine' }), 'Mine')
  t.equal(messageWords({ ...withOrigin, provenance: null }), '')
  t.equal(headline(withOrigin), 'shop (production): Lower the prices (0123456 main), cli (Ada)')
  t.equal(headline({ ...withOrigin, provenance: null }), 'shop (production): cli')
  t.equal(
    headline({ ...withOrigin, projectName: 'a\nb' }),
    'a\\nb (production): Lower the prices (0123456 main), cli (Ada)'
  )
})
