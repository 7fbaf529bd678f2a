import t from 'tap'
import type { DeploymentRow, DeploymentStatus } from '../../lib/model/deployment.js'
import { assertTransition, refuseIfFinal, refuseUnlessFinal, type Cause } from '../../lib/deploy/status.js'
import { deploySays } from '../support/sentences/deploy.js'

const allowed = new Set([
  'queued running turn',
  ...['end', 'cancel', 'stop', 'restart'].flatMap(cause => [`queued failed ${cause}`, `running failed ${cause}`]),
  'running success end',
  'success success correction',
  'success failed correction',
  'failed success correction',
  'failed failed correction'
])

t.test('allows only the transitions of the table', async t => {
  const states: DeploymentStatus[] = ['queued', 'running', 'success', 'failed']
  const causes: Cause[] = ['turn', 'end', 'cancel', 'stop', 'restart', 'correction']
  for (const from of states) {
    for (const to of states) {
      for (const cause of causes) {
        const move = `${from} ${to} ${cause}`
        const attempt = (): void => assertTransition(from, to, cause)
        if (allowed.has(move)) t.doesNotThrow(attempt, move)
        else t.throws(attempt, { message: deploySays.noTransition(from, to, cause) }, move)
      }
    }
  }
})

t.test('both refusals name the status', async t => {
  const row = (status: DeploymentStatus) => ({ id: 'dep_1', status }) as DeploymentRow
  t.throws(() => refuseUnlessFinal(row('running'), 'marked'), {
    kind: 'conflict',
    code: 'not_finished',
    message: /running/
  })
  t.throws(() => refuseUnlessFinal(row('queued'), 'marked'), { code: 'not_finished', message: /queued/ })
  t.throws(() => refuseIfFinal(row('success'), 'cancelled'), {
    kind: 'conflict',
    code: 'already_finished',
    message: /success/
  })
  t.doesNotThrow(() => refuseUnlessFinal(row('failed'), 'marked'))
  t.doesNotThrow(() => refuseIfFinal(row('queued'), 'cancelled'))
})
