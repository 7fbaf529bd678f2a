import t from 'tap'
import { flag, line, list, nullable, object, optional, withDefault } from '../../lib/base/fields.js'
import { ownSettings, tolerant } from '../../lib/transfer/other-names.js'

const read = tolerant(
  object({
    deployPath: line(),
    allowClientScripts: nullable(flag),
    pinned: withDefault(flag, false),
    tagIds: optional(list(line(), { max: 9 }))
  })
)

t.test('reads the names and values of other programs', async t => {
  const known = { deployPath: '/a', allowClientScripts: false, pinned: true, tagIds: ['b'] }
  t.same(read({ deploy_path: '/a', allow_cli_hooks: 0, pinned: 1, tag_ids: '["b"]' }, 'x'), known)
  t.same(read({ deployPath: '/a', allowCliHooks: false, pinned: 1, tagIds: ['b'] }, 'x'), known)
  t.same(
    read(
      {
        deploy_path: '/b',
        deployPath: '/a',
        allow_cli_hooks: 1,
        allowClientScripts: false,
        pinned: true,
        tagIds: ['b']
      },
      'x'
    ),
    known
  )
})

t.test('the readers still refuse what cannot be meant', async t => {
  for (const bad of [
    { deploy_path: '/a', pinned: 2 },
    { deploy_path: 7 },
    { deploy_path: '/a', tag_ids: '[' },
    { deploy_path: '/a', tag_ids: '{"length": 9}' },
    { deploy_path: 'a\nb' },
    ['deploy_path'],
    null
  ]) {
    t.throws(() => read(bad, 'x'), { name: 'Refusal' })
  }
  const given = JSON.parse('{"deploy_path": "/a", "__proto__": {"pinned": true}, "constructor": 1}')
  t.same(read(given, 'x'), { deployPath: '/a', allowClientScripts: null, pinned: false, tagIds: undefined })
})

t.test('reads settings as a list of keys and values', async t => {
  t.same(
    ownSettings([{ key: 'script_timeout', value: '60' }, { key: 'artifact_keep_n', value: 5 }, null, { value: 1 }]),
    {
      script_timeout: '60',
      keep_archives: 5
    }
  )
  t.same(ownSettings({ artifact_keep_n: '5', keep_archives: '7' }), { keep_archives: '7' })
  t.equal(ownSettings('x'), 'x')
})
