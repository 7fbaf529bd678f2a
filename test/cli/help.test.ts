import t from 'tap'
import { renderOverview } from '../../lib/cli/help.js'

t.test('renderOverview names every command below the heading of its group, in the order of the groups', async t => {
  const rows = [
    { name: 'serve', group: 'server', summary: 'run it' },
    { name: 'push', group: 'deploying', summary: 'pack and deploy' }
  ]
  const page = renderOverview(rows, { deploying: 'Deploying', logs: 'Logs', server: 'Server' })
  t.match(page, /^Deploying:\n {2}push {3}pack and deploy\n\nServer:\n {2}serve {2}run it\n\nOptions:\n/m)
  t.notMatch(page, 'Logs', 'a group without commands has no heading')
})
