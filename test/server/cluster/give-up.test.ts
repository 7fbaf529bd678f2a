import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { giveUpOn } from '../../../lib/server/cluster/give-up.js'

const hub = { name: 'h2', url: 'https://h2.example' }

t.test('another hub gives up a target, and its answer is read like that of a stranger', async t => {
  const asked: unknown[] = []
  const give = (answer: unknown, name = 'h2'): ReturnType<typeof giveUpOn> =>
    giveUpOn(
      {
        store: { peers: { find: each => (each === hub.name ? (hub as never) : null) } },
        client: {
          async json(_, { method, target }) {
            asked.push(`${method} ${target}`)
            if (answer instanceof Error) throw answer
            return answer
          }
        }
      },
      name,
      'dep_a'
    )
  const refused = (code: string) => new Refusal('unavailable', code, `what h2 says of ${code}`)
  t.strictSame(await give({ deployId: 'dep_other', target: '/srv/site' }), { deployId: 'dep_a', target: '/srv/site' })
  t.strictSame(asked, ['POST /api/hub/unfinished/dep_a'])
  t.strictSame(await give({ target: null }), { deployId: 'dep_a', target: null })
  await t.rejects(give({ target: 'a\nb' }), { code: 'invalid_field' })
  await t.rejects(give('nothing'), Refusal)
  await t.rejects(give(refused('target_there')), { kind: 'conflict', message: 'what h2 says of target_there' })
  await t.rejects(give(refused('not_found')), { kind: 'not_found', code: 'not_found' })
  await t.rejects(give(refused('hub_unreachable')), { kind: 'unavailable', code: 'hub_unreachable' })
  await t.rejects(give({}, 'h9'), { kind: 'not_found', code: 'not_found' })
})
