import t from 'tap'
import { actorText, projectOfActor } from '../../../lib/base/shared/actor-text.js'

t.test('the deploy token of a project is named by the project', t => {
  const nameOf = (id: string): string | undefined => (id === 'proj_a' ? 'shop' : undefined)
  t.equal(actorText('project:proj_a', nameOf), 'the deploy token of shop')
  t.equal(actorText('project:proj_gone', nameOf), 'the deploy token of proj_gone')
  t.equal(actorText('token:ana', nameOf), 'token:ana')
  t.same(['project:proj_a', 'admin'].map(projectOfActor), ['proj_a', null])
  t.end()
})
