/** Number of calls in progress at a time. Less than the four threads that the whole process has for file operations. */
const callsAbreast = 3

/** Runs `work` for each item, three at a time. Rejects with the first failure, and then starts no more work. */
export async function abreast<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]()
  let hasFailed = false
  const lane = async (): Promise<void> => {
    for (let next = waiting.next(); !next.done && !hasFailed; next = waiting.next()) {
      await work(next.value).catch(error => {
        hasFailed = true
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: callsAbreast }, lane))
}
