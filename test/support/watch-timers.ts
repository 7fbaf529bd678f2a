/*
 * Loaded before a program (`node --import`): on SIGUSR2 it says on stdout, as `timers: <JSON>`, which of the timers
 * that are set, or were set since it was last asked, run out within a second. Node's own are among them.
 */
import { createHook } from 'node:async_hooks'
import { writeSync } from 'node:fs'

interface Timer {
  /** Milliseconds. */
  _idleTimeout: number
}

const set = new Map<number, { timer: Timer; place: string }>()
let quick: string[] = []

createHook({
  init(id, type, _trigger, timer) {
    if (type !== 'Timeout') return
    const place =
      new Error('set').stack
        ?.split('\n')
        .slice(2, 9)
        .map(line => line.trim())
        .join(' < ') ?? ''
    const known = { timer: timer as Timer, place }
    set.set(id, known)
    if (isQuick(known.timer)) quick.push(place)
  },
  destroy: id => void set.delete(id)
}).enable()

const isQuick = ({ _idleTimeout: ms }: Timer): boolean => ms >= 0 && ms < 1000

process.on('SIGUSR2', () => {
  const still = [...set.values()].filter(({ timer }) => isQuick(timer)).map(({ place }) => place)
  writeSync(1, `timers: ${JSON.stringify([...new Set([...quick, ...still])])}\n`)
  quick = []
})
