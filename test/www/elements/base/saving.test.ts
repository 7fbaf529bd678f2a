import '../../../support/without-dom.js'
import t from 'tap'
import { Refused } from '../../../../www/server/client.js'
import { type Conflict, mergeFields, saveMerged } from '../../../../www/elements/base/saving.js'

t.test('merges fields that one side changed, and reports a conflict if both did', async t => {
  const base = { name: 'a', env: 'x', user: null, tags: ['1', '2'], count: 1, both: 'old' }
  const cases = [
    { mine: { ...base }, theirs: { ...base, name: 'b' }, changes: {}, conflicts: [] },
    { mine: { ...base, name: 'b' }, theirs: { ...base, env: 'y' }, changes: { name: 'b' }, conflicts: [] },
    { mine: { ...base, both: 'new' }, theirs: { ...base, both: 'new' }, changes: {}, conflicts: [] },
    {
      mine: { ...base, user: '', tags: ['2', '1'] },
      theirs: { ...base, user: 'www', tags: ['3'] },
      changes: {},
      conflicts: []
    },
    {
      mine: { ...base, count: 2, both: 'm' },
      theirs: { ...base, both: 't' },
      changes: { count: 2 },
      conflicts: [{ name: 'both', mine: 'm', theirs: 't' }]
    },
    {
      mine: { ...base, tags: [] },
      theirs: { ...base, tags: ['1'] },
      changes: {},
      conflicts: [{ name: 'tags', mine: [], theirs: ['1'] }]
    }
  ]
  for (const { mine, theirs, changes, conflicts } of cases)
    t.same(mergeFields({ base, mine, theirs }), { changes, conflicts })
})

/** A server with one record, whose every change has a new tag. */
function createServer(values: Record<string, unknown>) {
  let version = 1
  return {
    get values() {
      return values
    },
    change(changes: object) {
      values = { ...values, ...changes }
      version++
    },
    loaded: () => ({ values, tag: String(version), state: version }),
    async send(changes: object, tag: string | null) {
      if (tag !== String(version)) throw new Refused(412, { error: 'changed', code: 'changed_since' }, null)
      this.change(changes)
      return 'saved'
    }
  }
}

t.test('saves after a change of another user', async t => {
  const start = (choose: (conflicts: Conflict[]) => 'mine' | 'theirs' | null) => {
    const server = createServer({ name: 'a', env: 'x' })
    const base = server.loaded()
    const asked: Conflict[][] = []
    const save = (mine: Record<string, unknown>): Promise<string | null> =>
      saveMerged({
        base,
        mine,
        keep: () => 'kept',
        send: (changes, tag) => server.send(changes, tag),
        load: async () => server.loaded(),
        async choose(conflicts) {
          asked.push(conflicts)
          const choice = choose(conflicts)
          return choice === null ? null : new Map(conflicts.map(({ name }) => [name, choice]))
        }
      })
    return { server, asked, save }
  }

  const alone = start(() => null)
  t.equal(await alone.save({ name: 'b', env: 'x' }), 'saved')
  t.same(alone.server.values, { name: 'b', env: 'x' })

  const apart = start(() => null)
  apart.server.change({ env: 'theirs' })
  t.equal(await apart.save({ name: 'mine', env: 'x' }), 'saved')
  t.same(apart.server.values, { name: 'mine', env: 'theirs' }, 'both changes are there')
  t.same(apart.asked, [], 'and nobody was asked')

  for (const [choice, name] of [
    ['mine', 'mine'],
    ['theirs', 'theirs']
  ] as const) {
    const both = start(() => choice)
    both.server.change({ name: 'theirs' })
    t.equal(await both.save({ name: 'mine', env: 'e' }), 'saved')
    t.same(both.server.values, { name, env: 'e' })
    const one = start(() => choice)
    one.server.change({ name: 'theirs' })
    t.equal(
      await one.save({ name: 'mine', env: 'x' }),
      choice === 'mine' ? 'saved' : 'kept',
      'nothing is sent if all stays'
    )
    t.same(both.asked, [[{ name: 'name', mine: 'mine', theirs: 'theirs' }]])
  }

  const given = start(() => null)
  given.server.change({ name: 'theirs' })
  t.equal(await given.save({ name: 'mine', env: 'e' }), null)
  t.same(given.server.values, { name: 'theirs', env: 'x' }, 'nothing was saved')

  let times = 0
  const busy = start(() => {
    if (++times === 1) busy.server.change({ name: 'again' })
    return 'mine'
  })
  busy.server.change({ name: 'theirs' })
  t.equal(await busy.save({ name: 'mine', env: 'x' }), 'saved')
  t.same(
    busy.asked.map(([conflict]) => conflict?.theirs),
    ['theirs', 'again'],
    'who is faster once more is asked about once more'
  )

  const broken = start(() => 'mine')
  await t.rejects(
    saveMerged({
      base: broken.server.loaded(),
      mine: {},
      load: async () => broken.server.loaded(),
      choose: async () => null,
      keep: () => 'kept',
      send: async () => {
        throw new Refused(400, { error: 'no', code: 'invalid_field' }, null)
      }
    }),
    { code: 'invalid_field' }
  )
})
