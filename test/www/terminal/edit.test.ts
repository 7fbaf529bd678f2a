import t from 'tap'
import { createEmulator } from '../../../www/terminal/emulator.js'
import { rowsOf } from './screen-table.js'

interface ResizeCase {
  what: string
  input: string
  from: [columns: number, rows: number]
  /** One size after the other. */
  to: Array<[columns: number, rows: number]>
  screen: string[]
  history?: string[]
  cursor: [x: number, y: number]
  /** Written afterwards. */
  then?: string
}

const lines = 'one\r\ntwo\r\nthree\r\nfour\r\nfive'

const cases: ResizeCase[] = [
  {
    what: 'joins a wrapped line',
    input: 'abcdefgh',
    from: [4, 3],
    to: [[8, 3]],
    screen: ['abcdefgh', '', ''],
    cursor: [7, 0]
  },
  {
    what: '… and continues after its last character',
    input: 'abcdefgh',
    from: [4, 3],
    to: [[8, 3]],
    then: 'i',
    screen: ['abcdefgh', 'i', ''],
    cursor: [1, 1]
  },
  {
    what: 'wraps a line that is too long',
    input: 'abcdefgh',
    from: [8, 3],
    to: [[3, 3]],
    screen: ['abc', 'def', 'gh'],
    cursor: [2, 2]
  },
  {
    what: 'keeps the cursor on its character',
    input: 'abcdefgh\x1b[1;6H',
    from: [8, 3],
    to: [[4, 3]],
    screen: ['abcd', 'efgh', ''],
    cursor: [1, 1]
  },
  {
    what: 'restores the screen if the size is changed back',
    input: 'abcdefgh\r\nxyz',
    from: [8, 3],
    to: [
      [3, 3],
      [5, 3],
      [8, 3]
    ],
    screen: ['abcdefgh', 'xyz', ''],
    cursor: [3, 1]
  },
  {
    what: 'does not join lines at a line end',
    input: 'ab\r\ncd',
    from: [2, 3],
    to: [[8, 3]],
    screen: ['ab', 'cd', ''],
    cursor: [2, 1]
  },
  {
    what: 'does not cut a wide character',
    input: '部署部署',
    from: [8, 3],
    to: [[3, 4]],
    screen: ['部', '署', '部', '署'],
    cursor: [2, 3]
  },
  {
    what: '… and leaves no gap if the size is changed back',
    input: '部署部署',
    from: [8, 3],
    to: [
      [3, 4],
      [8, 3]
    ],
    screen: ['部署部署', '', ''],
    cursor: [7, 0]
  },
  {
    what: 'moves the top rows to the history if there are fewer rows',
    input: lines,
    from: [8, 5],
    to: [[8, 3]],
    screen: ['three', 'four', 'five'],
    history: ['one', 'two'],
    cursor: [4, 2]
  },
  {
    what: 'takes rows back from the history if there are more rows',
    input: lines,
    from: [8, 3],
    to: [[8, 5]],
    screen: ['one', 'two', 'three', 'four', 'five'],
    history: [],
    cursor: [4, 4]
  },
  {
    what: 'removes empty rows at the bottom first',
    input: 'one\r\ntwo',
    from: [8, 5],
    to: [[8, 3]],
    screen: ['one', 'two', ''],
    history: [],
    cursor: [3, 1]
  },
  {
    what: 'does not fill a cleared screen from the history',
    input: `${lines}\x1b[H\x1b[2J$ `,
    from: [8, 3],
    to: [[8, 5]],
    screen: ['$', '', '', '', ''],
    history: ['one', 'two'],
    cursor: [2, 0]
  },
  {
    what: 'wraps the history at the new width, too',
    input: 'abcdefgh\r\n1\r\n2\r\n3',
    from: [8, 2],
    to: [[4, 2]],
    screen: ['2', '3'],
    history: ['abcd', 'efgh', '1'],
    cursor: [1, 1]
  },
  {
    what: 'keeps the cursor of a prompt that ends with blanks',
    input: '$ ',
    from: [8, 3],
    to: [
      [4, 3],
      [9, 2]
    ],
    screen: ['$', ''],
    cursor: [2, 0]
  },
  {
    what: 'cuts the alternate screen',
    input: 'main\x1b[?1049h\x1b[Habcdefgh\x1b[3;8Hx',
    from: [8, 3],
    to: [[4, 2]],
    screen: ['abcd', ''],
    cursor: [3, 1]
  },
  {
    what: '… and wraps the hidden main screen',
    input: 'abcdefgh\x1b[?1049hx',
    from: [8, 3],
    to: [[4, 3]],
    then: '\x1b[?1049l',
    screen: ['abcd', 'efgh', ''],
    cursor: [3, 1]
  },
  {
    what: 'resets the region to the whole screen',
    input: '\x1b[2;3r',
    from: [8, 4],
    to: [[8, 5]],
    then: '\x1b[5;1Hx\n',
    screen: ['', '', '', 'x', ''],
    history: [''],
    cursor: [1, 4]
  },
  {
    what: 'extends the tab stops to the new width',
    input: '',
    from: [8, 2],
    to: [[24, 2]],
    then: '\t\tx',
    screen: ['                x', ''],
    cursor: [17, 0]
  },
  {
    what: 'accepts one column and one row',
    input: 'abc',
    from: [8, 3],
    to: [[1, 1]],
    screen: ['c'],
    history: ['a', 'b'],
    cursor: [0, 0]
  }
]

for (const { what, input, from, to, screen, history, cursor, then = '' } of cases) {
  t.test(what, async t => {
    const emulator = createEmulator({ columns: from[0], rows: from[1], historyLines: 50 })
    emulator.write(input)
    for (const [columns, rows] of to) emulator.resize(columns, rows)
    emulator.write(then)
    t.same(rowsOf(emulator), screen)
    if (history !== undefined) t.same(rowsOf(emulator, 'history'), history)
    t.same([emulator.cursor.x, emulator.cursor.y], cursor, 'the cursor')
  })
}

t.test('keeps every character for any order of sizes', async t => {
  const text = Array.from({ length: 40 }, (_, line) => 'x'.repeat(line % 23) + '部'.repeat(line % 5) + line).join(
    '\r\n'
  )
  const emulator = createEmulator({ columns: 30, rows: 10, historyLines: 5000 })
  emulator.write(text)
  const wanted = text.replaceAll('\r\n', '')
  for (let step = 1; step <= 60; step++) {
    emulator.resize(2 + ((step * 7919) % 60), 1 + ((step * 104_729) % 30))
    t.equal(
      [...rowsOf(emulator, 'history'), ...rowsOf(emulator)].join(''),
      wanted,
      `${emulator.columns} by ${emulator.rows}`
    )
  }
})

t.test('changes the width of 10,000 lines and back', async t => {
  const emulator = createEmulator({ columns: 120, rows: 40 })
  emulator.write('a line of the log that is as long as such lines are, sixty or so\r\n'.repeat(11_000))
  const startedAt = Date.now()
  for (const columns of [40, 200, 120]) emulator.resize(columns, 40)
  t.comment(`three sizes: ${Date.now() - startedAt} ms`)
  t.equal(rowsOf(emulator)[0], 'a line of the log that is as long as such lines are, sixty or so')
})
