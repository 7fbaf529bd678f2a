/** File name extensions of formats that are already compressed: deflating them again takes time and saves nothing. */
export const compressedTypes: ReadonlySet<string> = new Set(
  (
    '7z aac apk avi avif br bz2 docx epub flac gif gz heic heif jar jpeg jpg jxl lz4 lzma m4a m4v mkv mov mp3 mp4 ' +
    'mpeg mpg odt ogg ogv opus png pptx rar tbz2 tgz txz war webm webp wma wmv woff woff2 xlsx xz zip zst'
  ).split(' ')
)
