return {ARGV[#ARGV], clock, fence, table.concat(results)}
