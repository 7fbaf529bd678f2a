/*
 * Loaded before a program (`node --import`). On SIGUSR2 it prints `timers: <JSON>`: the timers of less than a second
 * that are set, or were set since the last signal. Those of Node itself are included.
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
