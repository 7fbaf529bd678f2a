import t from 'tap'
import { hiddenValue, showing, type Readers } from '../../lib/model/readers.js'

interface Note {
  title: string
  text: string | null
  secret: string
  parts: Array<{ name: string; script: string }>
  header?: Record<string, string>
}

const readers: Readers<Note> = {
  fields: {
    title: { without: text => text.replace('secret', '…') },
    text: 'scripts',
    secret: 'admins',
    parts: { items: { fields: { name: 'everybody', script: 'scripts' } } },
    header: { values: 'nobody' }
  }
}
const note: Note = {
  title: 'a secret',
  text: 'text',
  secret: 's',
  parts: [
    { name: 'a', script: 'run' },
    { name: 'b', script: '' }
  ],
  header: { Authorization: 'Bearer x' }
}
const header = { Authorization: hiddenValue }

t.test('shows each caller what its table says', async t => {
  t.same(showing<Note>(readers, 'admin')(note), { ...note, header })
  t.same(showing<Note>(readers, 'scripts')(note), { ...note, secret: null, header })
  t.same(showing<Note>(readers, 'plain')(note), {
    title: 'a …',
    text: null,
    secret: null,
    parts: [
      { name: 'a', script: null },
      { name: 'b', script: null }
    ],
    header
  })
})

t.test('does not copy a record in which nothing is hidden, and keeps absent fields absent', async t => {
  const { header: _, ...plain } = note
  t.equal(showing<Note>(readers, 'admin')(plain), plain)
  t.equal(showing<Note>(readers, 'admin')(plain).parts, plain.parts)
  const bare = { title: 'x', text: null, parts: [] }
  t.equal(showing<Note>(readers, 'plain')(bare), bare)
  t.same(note.parts[0], { name: 'a', script: 'run' }, 'the record itself is unchanged')
})
