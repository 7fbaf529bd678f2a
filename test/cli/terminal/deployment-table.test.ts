import t from 'tap'
import type { Paint } from '../../../lib/cli/terminal/colors.js'
import {
  deploymentColumns,
  paintStatus,
  shownMessage,
  statusWords
} from '../../../lib/cli/terminal/deployment-table.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'

const paint = new Proxy({}, { get: (_, color) => (text: string) => `${String(color)}(${text})` }) as unknown as Paint
const row = (of: Partial<ListedDeployment>): ListedDeployment =>
  ({ id: 'dep_a', status: 'success', message: null, triggerSource: 'cli', ...of }) as ListedDeployment

t.test('each state has its colour', async t => {
  const painted = (['success', 'failed', 'idle', 'queued', 'running'] as const).map(state => paintStatus(paint, state))
  t.same(painted, ['green(success)', 'red(failed)', 'dim(idle)', 'yellow(queued)', 'yellow(running)'])
})

t.test('a script that failed in the background is shown beside the state, in red', async t => {
  const failed = row({ backgroundFailed: true })
  t.match(statusWords(failed), /^success, .+/)
  t.equal(statusWords(row({})), 'success')
  const status = deploymentColumns(paint, 0).find(({ header }) => header === 'STATUS')
  t.equal(status?.paint?.('text', failed), 'red(text)')
})

t.test('a message is shown without control characters, and cut', async t => {
  const shown = shownMessage(row({ message: `\u001b[31m${'long '.repeat(40)}` }))
  t.notMatch(shown, /\u001b/)
  t.ok(shown.length <= 60, shown)
})
