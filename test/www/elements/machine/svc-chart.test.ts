import '../../../support/without-dom.js'
import t from 'tap'
import {
  areaPath,
  datesUpTo,
  latest,
  levelOf,
  linePath,
  niceBytesEnd,
  niceCountEnd,
  niceEnd,
  placeOf,
  stretchesOf,
  weekdayOf
} from '../../../../www/elements/machine/svc-chart.js'

t.test('ends an axis at a round number that is not below its values', async t => {
  for (const [most, end] of [
    [0, 1],
    [0.3, 0.5],
    [1, 1],
    [1.1, 2],
    [3, 5],
    [7, 10],
    [99, 100],
    [101, 200]
  ]) {
    t.equal(niceEnd(most as number), end, String(most))
  }
  for (const [most, end] of [
    [0, 1],
    [1000, 1024],
    [1024, 1024],
    [1025, 2048],
    [3 * 1024 ** 3, 4 * 1024 ** 3]
  ]) {
    t.equal(niceBytesEnd(most as number), end, String(most))
  }
  for (const [most, end] of [
    [0, 2],
    [1, 2],
    [3, 4],
    [10, 10],
    [11, 20]
  ]) {
    t.equal(niceCountEnd(most as number), end, `${most}: its middle is a whole number, too`)
  }
})

t.test('places values and limits those outside of the range', async t => {
  const y = { from: 0, to: 100, fromPx: 80, toPx: 0 }
  for (const [value, place] of [
    [0, 80],
    [50, 40],
    [100, 0],
    [180, 0],
    [-5, 80]
  ])
    t.equal(placeOf(value as number, y), place)
  t.equal(placeOf(5, { ...y, to: 0 }), 80, 'an axis without length')
})

t.test('interrupts a line at gaps', async t => {
  const points = [0, 5, 10, 60, 65].map(second => ({ atMs: second * 1000, value: second }))
  const stretches = stretchesOf(points, {
    x: { from: 0, to: 100_000, fromPx: 0, toPx: 100 },
    y: { from: 0, to: 100, fromPx: 100, toPx: 0 },
    gapMs: 15_000
  })
  t.same(stretches, [
    [
      [0, 100],
      [5, 95],
      [10, 90]
    ],
    [
      [60, 40],
      [65, 35]
    ]
  ])
  t.equal(linePath(stretches[1] ?? []), 'M60 40L65 35')
  t.equal(areaPath(stretches[1] ?? [], 100), 'M60 40L65 35L65 100L60 100Z')
  t.equal(linePath([[3, 4]]), 'M3 4h0.1', 'one point is a dot')
  t.equal(areaPath([[3, 4]], 100), '')
  t.equal(linePath([]), '')
})

t.test('drops points that are older than the span', async t => {
  const points = [0, 5, 10, 15].map(atMs => ({ atMs }))
  t.same(
    latest(points, 10).map(({ atMs }) => atMs),
    [5, 10, 15]
  )
  t.same(latest([], 10), [])
})

t.test('computes the days of a calendar', async t => {
  t.same(datesUpTo('2024-03-01', 3), ['2024-02-28', '2024-02-29', '2024-03-01'])
  t.equal(weekdayOf('2026-11-23'), 0, 'a Monday')
  t.equal(weekdayOf('2026-11-22'), 6, 'a Sunday')
  for (const [count, level] of [
    [0, 0],
    [1, 1],
    [2, 1],
    [3, 2],
    [5, 3],
    [8, 4]
  ]) {
    t.equal(levelOf(count as number, 8), level, `${count} of 8`)
  }
  t.equal(levelOf(1, 1), 4)
})
